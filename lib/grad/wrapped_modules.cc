#include "grad/wrapped_modules.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace onnx_memopt::grad {
namespace {

// Of what a module saves, so much has to be made again.
constexpr double kMostly = 0.75;

// A module without a number is wrapped only if it saves no more than one in so
// many bytes: made again as a whole, a large one would save nothing.
constexpr int64_t kMostParts = 3;

// One of several equal modules, or in one.
bool IsNumbered(const std::string& module) { return !LayerOf(module).empty(); }

size_t At(int32_t index) { return static_cast<size_t>(index); }

struct ModuleFacts {
  int64_t saved_bytes = 0;
  int64_t again_bytes = 0;
  size_t again_nodes = 0;
  size_t values = 0;  // that are saved
  size_t first = 0;   // unit
};

}  // namespace

std::string LayerOf(const std::string& module) {
  std::vector<std::string> parts = absl::StrSplit(module, '.');
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool is_number =
        !parts[i].empty() &&
        std::all_of(parts[i].begin(), parts[i].end(), [](char c) {
          return absl::ascii_isdigit(static_cast<unsigned char>(c));
        });
    if (!is_number) continue;
    parts.resize(i + 1);
    return absl::StrJoin(parts, ".");
  }
  return "";
}

std::vector<WrappedModule> ModulesToWrap(
    const StepUnits& units, absl::Span<const int32_t> runs,
    const std::vector<std::string>& modules) {
  std::vector<int> times(units.size());
  for (int32_t unit : runs) ++times[At(unit)];
  const std::vector<bool> saved = units.Saved();
  std::map<std::string, ModuleFacts> facts;  // parents before children
  for (size_t u = 0; u < units.size(); ++u) {
    const StepUnit& unit = units.units()[u];
    const size_t node = ir::Index(unit.nodes.back());
    if (!unit.is_forward || node >= modules.size()) continue;
    const std::string& module = modules[node];
    // The module and all those around it.
    for (size_t end = module.empty() ? std::string::npos : 0;
         end != std::string::npos;) {
      end = module.find('.', end + 1);
      ModuleFacts& f =
          facts.try_emplace(module.substr(0, end), ModuleFacts{.first = u})
              .first->second;
      if (times[u] > 1) f.again_nodes += unit.nodes.size();
      if (!saved[u]) continue;
      ++f.values;
      f.saved_bytes += unit.bytes;
      if (times[u] > 1) f.again_bytes += unit.bytes;
    }
  }
  int64_t total = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    if (saved[u]) total += units.units()[u].bytes;
  }
  // Around numbered modules there is a list of them, which has no forward pass
  // of its own, or a network.
  const auto holds_numbered = [&](const std::string& module) {
    const std::string inside = absl::StrCat(module, ".");
    for (auto it = facts.lower_bound(inside);
         it != facts.end() && absl::StartsWith(it->first, inside); ++it) {
      if (IsNumbered(it->first)) return true;
    }
    return false;
  };
  std::map<size_t, WrappedModule> wrapped;  // by place in the forward pass
  std::vector<std::string> taken;
  for (const auto& [module, f] : facts) {
    // A single value is what the module hands on, which stays all the same.
    if (f.values < 2 || static_cast<double>(f.again_bytes) <
                            kMostly * static_cast<double>(f.saved_bytes)) {
      continue;
    }
    if (!IsNumbered(module) &&
        (f.saved_bytes > total / kMostParts || holds_numbered(module))) {
      continue;
    }
    bool inside = false;
    for (const std::string& other : taken) {
      inside = inside || absl::StartsWith(module, absl::StrCat(other, "."));
    }
    if (inside) continue;
    taken.push_back(module);
    wrapped[f.first] = {
        .module = module, .bytes = f.again_bytes, .nodes = f.again_nodes};
  }
  std::vector<WrappedModule> result;
  result.reserve(wrapped.size());
  for (auto& [place, module] : wrapped) result.push_back(std::move(module));
  return result;
}

}  // namespace onnx_memopt::grad
