#include "estimate/torch_saved.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace onnx_memopt::estimate {
namespace {

enum class Rule : uint8_t {
  kTable,     // as the op table says
  kProduct,   // each operand, for the gradient of the other ones
  kQuotient,  // the divisor always, the dividend for the divisor's gradient
  kPower,     // the base; all three if the exponent has a gradient
  kListed,    // `operands` and `results` of the row
};

struct Row {
  absl::string_view op;
  Rule rule = Rule::kTable;
  ExtraSaved extra = ExtraSaved::kNone;
  uint32_t operands = 0;
  uint32_t results = 0;
};

// Sorted by name. From PyTorch's derivatives.yaml.
constexpr std::array<Row, 24> kRows = {{
    // avg_pool2d_backward takes the image, for its size.
    {"AveragePool", Rule::kListed, ExtraSaved::kNone, 1, 0},
    {"BatchNormalization", Rule::kTable, ExtraSaved::kChannelStats},
    {"Conv", Rule::kProduct},
    {"ConvTranspose", Rule::kProduct},
    {"Div", Rule::kQuotient},
    {"Dropout", Rule::kListed, ExtraSaved::kMask},
    {"Einsum", Rule::kProduct},
    {"FusedMatMul", Rule::kProduct},
    {"Gemm", Rule::kProduct},
    // A mean over all positions.
    {"GlobalAveragePool", Rule::kListed},
    {"GlobalMaxPool", Rule::kListed, ExtraSaved::kIndices, 1, 0},
    {"GroupNormalization", Rule::kTable, ExtraSaved::kChannelStats},
    {"HardSigmoid", Rule::kListed, ExtraSaved::kNone, 1, 0},
    {"InstanceNormalization", Rule::kTable, ExtraSaved::kChannelStats},
    {"LayerNormalization", Rule::kListed, ExtraSaved::kRowStats, 3, 0},
    {"MatMul", Rule::kProduct},
    {"MaxPool", Rule::kListed, ExtraSaved::kIndices, 1, 0},
    {"Mul", Rule::kProduct},
    {"Pow", Rule::kPower},
    {"RMSNormalization", Rule::kListed, ExtraSaved::kRowStats, 3, 0},
    {"ReduceMax", Rule::kListed, ExtraSaved::kNone, 1, 1},
    {"ReduceMin", Rule::kListed, ExtraSaved::kNone, 1, 1},
    {"SimplifiedLayerNormalization", Rule::kListed, ExtraSaved::kRowStats, 3,
     0},
    {"SkipLayerNormalization", Rule::kTable, ExtraSaved::kRowStats},
}};

}  // namespace

TorchSaved SavedByTorch(const ir::Node& node,
                        const std::function<bool(size_t)>& has_gradient) {
  const ir::SavedForBackward& table = node.info->saved;
  TorchSaved saved{.operands = table.operands, .results = table.results};
  if (!table.known) saved = {.operands = UINT32_MAX, .results = UINT32_MAX};
  const auto* row = std::lower_bound(
      kRows.begin(), kRows.end(), node.op_type,
      [](const Row& r, absl::string_view op) { return r.op < op; });
  if (row == kRows.end() || row->op != node.op_type) return saved;
  saved.extra = row->extra;
  switch (row->rule) {
    case Rule::kTable:
      break;
    case Rule::kListed:
      saved.operands = row->operands;
      saved.results = row->results;
      break;
    case Rule::kProduct: {
      // A bias is no factor.
      const size_t factors =
          node.op_type == "Einsum" ? node.operands.size() : size_t{2};
      const size_t count = std::min(factors, node.operands.size());
      saved = {.extra = row->extra};
      for (size_t i = 0; i < count && i < 31; ++i) {
        for (size_t j = 0; j < count; ++j) {
          if (j != i && has_gradient(j)) saved.operands |= uint32_t{1} << i;
        }
      }
      break;
    }
    case Rule::kQuotient:
      saved.operands = has_gradient(1) ? 3 : 2;
      saved.results = 0;
      break;
    case Rule::kPower:
      saved.operands = has_gradient(1) ? 3 : 1;
      saved.results = has_gradient(1) ? 1 : 0;
      break;
  }
  return saved;
}

}  // namespace onnx_memopt::estimate
