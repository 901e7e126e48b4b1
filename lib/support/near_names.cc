#include "onnx_memopt/support/near_names.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace onnx_memopt {
namespace {

// A name may be anything: its beginning is enough to compare.
constexpr size_t kCompared = 64;

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<size_t> NearNames(absl::string_view name,
                              absl::Span<const std::string> names,
                              size_t count) {
  name = name.substr(0, kCompared);
  std::vector<std::pair<size_t, size_t>> ranked;  // distance, index
  ranked.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const absl::string_view other =
        absl::string_view(names[i]).substr(0, kCompared);
    const bool part = !name.empty() && (absl::StrContains(other, name) ||
                                        absl::StrContains(name, other));
    ranked.emplace_back(part ? 0 : EditDistance(name, other), i);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<size_t> nearest;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) {
    nearest.push_back(ranked[i].second);
  }
  return nearest;
}

}  // namespace onnx_memopt
