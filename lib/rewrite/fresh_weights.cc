#include "onnx_memopt/rewrite/fresh_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/rewrite/real_bytes.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/random_bits.h"
#include "onnx_memopt/support/status_macros.h"
#include "rewrite/large_bytes.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr double kEmbeddingDeviation = 0.02;
constexpr double kSlope = 0.25;

// Normal, or a constant where the deviation is 0.
struct Distribution {
  double deviation = 0;
  double constant = 0;
};

bool IsNorm(const Node& node) {
  const ir::FlowRule flow = node.info->flow;
  return flow == ir::flow_rules::LayerNormalization ||
         flow == ir::flow_rules::BatchNormalization ||
         flow == ir::flow_rules::InstanceNormalization ||
         flow == ir::flow_rules::GroupNormalization;
}

bool IsConvolution(const Node& node) {
  const ir::FlowRule flow = node.info->flow;
  return flow == ir::flow_rules::Conv || flow == ir::flow_rules::FusedConv ||
         flow == ir::flow_rules::ConvTranspose;
}

// A vector, possibly with axes of extent 1 around it for broadcasting.
bool IsVector(const ir::Weight& weight) {
  return std::count_if(weight.dims.begin(), weight.dims.end(),
                       [](int64_t dim) { return dim != 1; }) <= 1;
}

double Product(const ir::Weight& weight, size_t from) {
  double product = 1;
  for (size_t i = from; i < weight.dims.size(); ++i) {
    product *= static_cast<double>(weight.dims[i]);
  }
  return product;
}

Distribution OfMatrix(const ir::Weight& weight) {
  const size_t rank = weight.dims.size();
  const auto rows = static_cast<double>(weight.dims[rank - 2]);
  const auto columns = static_cast<double>(weight.dims[rank - 1]);
  return {.deviation = std::sqrt(2 / (rows + columns))};
}

Distribution Choose(const Node& node, size_t operand,
                    const ir::Weight& weight) {
  if (IsNorm(node)) {
    // BatchNormalization: scale, bias, mean, variance.
    return {.constant = operand == 1 || operand == 4 ? 1.0 : 0.0};
  }
  if (node.info->flow == ir::flow_rules::SkipLayerNormalization) {
    return {.constant = operand == 2 ? 1.0 : 0.0};
  }
  if (node.op_type == "PRelu") return {.constant = kSlope};
  const bool is_product = node.op_type == "Mul" || node.op_type == "Div";
  const bool is_sum = node.op_type == "Add" || node.op_type == "Sub";
  if (IsVector(weight)) {
    if (is_product) return {.constant = 1};
    // A token of its own, behind a Concat or Expand, is an embedding.
    return {.deviation =
                is_sum || node.info->recompute == ir::RecomputeCost::kExpensive
                    ? 0
                    : kEmbeddingDeviation};
  }
  if (IsConvolution(node)) {
    const bool transposed = node.info->flow == ir::flow_rules::ConvTranspose;
    const double inputs =
        transposed ? Product(weight, 0) / static_cast<double>(weight.dims[1])
                   : Product(weight, 1);
    return {.deviation = std::sqrt(2 / inputs)};
  }
  if (is_sum || node.info->flow == ir::flow_rules::Gather) {
    return {.deviation = kEmbeddingDeviation};
  }
  return OfMatrix(weight);
}

uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return hash;
}

// Box and Muller: two numbers from two.
std::pair<double, double> TwoNormal(uint64_t bits) {
  const double u = 1 - UnitReal(MixBits(bits));
  const double v = UnitReal(MixBits(bits + 1));
  const double radius = std::sqrt(-2 * std::log(u));
  const double angle = 2 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

bool IsFilled(ir::ElementType element) {
  return element == ir::ElementType::kFloat ||
         element == ir::ElementType::kDouble ||
         element == ir::ElementType::kFloat16 ||
         element == ir::ElementType::kBfloat16;
}

std::string Elements(uint64_t seed, const Distribution& distribution,
                     const ir::Weight& weight) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(weight.size_bytes));
  const auto count = static_cast<size_t>(Product(weight, 0));
  const uint64_t stream = MixBits(MixBits(seed) ^ HashName(weight.name));
  for (size_t i = 0; i < count; i += 2) {
    std::pair<double, double> two = {distribution.constant,
                                     distribution.constant};
    if (distribution.deviation > 0) {
      const auto [a, b] = TwoNormal(stream + i);
      two = {a * distribution.deviation, b * distribution.deviation};
    }
    AppendReal(weight.element, two.first, &bytes);
    if (i + 1 < count) AppendReal(weight.element, two.second, &bytes);
  }
  return bytes;
}

}  // namespace

absl::Status FillFresh(uint64_t seed, absl::Span<const ValueId> weights,
                       ir::Graph* graph) {
  struct Reader {
    NodeId node;
    size_t operand;
  };
  llvm::DenseMap<ValueId, Reader> first;
  for (NodeId id : graph->block(ir::kMainBlock).nodes) {
    const auto& operands = graph->node(id).operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] != ir::kNoValue) {
        first.try_emplace(operands[i], Reader{id, i});
      }
    }
  }
  LargeBytes bytes(graph);
  for (ValueId id : weights) {
    ir::Value& value = graph->mutable_value(id);
    ir::Weight weight = graph->weight(value.weight);
    if (!IsFilled(weight.element)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight \"", Printable(value.name), "\" is ",
                       ir::ToString(value.type), ", not a plain float"));
    }
    const auto reader = first.find(id);
    Distribution distribution;
    if (reader != first.end()) {
      distribution = Choose(graph->node(reader->second.node),
                            reader->second.operand, weight);
    }
    weight.storage = ir::WeightStorage::kRaw;
    weight.transform = {};
    weight.bytes = bytes.Own(Elements(seed, distribution, weight));
    value.weight = graph->AddWeight(std::move(weight));
    value.source_block = ir::kNoBlock;
    value.contents = nullptr;
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::rewrite
