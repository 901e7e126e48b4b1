// The op table: the rows of op_info_*.h, sorted when this file is compiled, so
// that looking one up is a binary search and start-up does nothing.
#include "onnx_memopt/ir/op_info.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ir/op_info_contrib.h"
#include "ir/op_info_layout.h"
#include "ir/op_info_math.h"
#include "ir/op_info_ml.h"
#include "ir/op_info_nn.h"
#include "ir/op_info_reduce.h"

namespace onnx_memopt::ir {
namespace {

// absl::string_view cannot be compared when compiling.
constexpr std::string_view Std(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

constexpr bool Before(const OpInfo& a, const OpInfo& b) {
  const int domains = Std(a.domain).compare(Std(b.domain));
  if (domains != 0) return domains < 0;
  return Std(a.name) < Std(b.name);
}

template <size_t... kSizes>
constexpr auto Sorted(const OpInfo (&... parts)[kSizes]) {
  std::array<OpInfo, (kSizes + ...)> table;
  size_t next = 0;
  const auto append = [&](const auto& part) {
    for (const OpInfo& row : part) table[next++] = row;
  };
  (append(parts), ...);
  std::sort(table.begin(), table.end(), Before);
  return table;
}

constexpr auto kTable =
    Sorted(op_table::kMathRows, op_table::kReduceRows, op_table::kNnRows,
           op_table::kLayoutRows, op_table::kMlRows, op_table::kContribRows);

constexpr bool IsUnique() {
  for (size_t i = 1; i < kTable.size(); ++i) {
    if (!Before(kTable[i - 1], kTable[i])) return false;
  }
  return true;
}
static_assert(IsUnique(), "an op has two rows");

// Of its types nothing is known either.
constexpr OpInfo kUnknownOp{.float16_since = 0, .bfloat16_since = 0};

}  // namespace

const OpInfo& FindOpInfo(absl::string_view domain, absl::string_view name) {
  OpInfo wanted;
  wanted.domain = domain == "ai.onnx" ? absl::string_view() : domain;
  wanted.name = name;
  const auto row =
      std::lower_bound(kTable.begin(), kTable.end(), wanted, Before);
  if (row == kTable.end() || Before(wanted, *row)) return kUnknownOp;
  return *row;
}

const OpInfo& UnknownOp() { return kUnknownOp; }

bool IsKnown(const OpInfo& info) { return !info.name.empty(); }

bool Takes(const OpInfo& info, ElementType half, int version) {
  const int since =
      half == ElementType::kBfloat16 ? info.bfloat16_since : info.float16_since;
  return IsKnown(info) && since > 0 && version >= since;
}

absl::string_view Name(Float32Need need) {
  switch (need) {
    case Float32Need::kStatistics:
      return "statistics";
    case Float32Need::kReduction:
      return "reduction";
    case Float32Need::kRunningSum:
      return "running sum";
    case Float32Need::kRange:
      return "range";
    case Float32Need::kCoordinates:
      return "coordinates";
    case Float32Need::kNone:
      break;
  }
  return "";
}

absl::Span<const OpInfo> AllOpInfo() { return kTable; }

}  // namespace onnx_memopt::ir
