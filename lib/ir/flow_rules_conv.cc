// Convolutions.
#include <numeric>
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

// Where a convolution has its operands.
struct ConvOperands {
  size_t weight = 1;
  size_t bias = 2;
};

bool IsConvolution(const ShapeContext& c, const ConvOperands& at) {
  const Shape* x = c.shape(0);
  const Shape* w = c.shape(at.weight);
  const Shape* result = ResultShape(c, 0);
  return x != nullptr && w != nullptr && result != nullptr && x->size() >= 3 &&
         w->size() == x->size() && result->size() == x->size();
}

Ways BatchWay(const ShapeContext& c) {
  std::optional<SplitWay> way = WayAlong(c, 0);
  if (!way || !SplitOperand(c, *way, 0, 0)) return {};
  return {*std::move(way)};
}

// Output channels. With groups, whole groups: each part has its channels of the
// input, and attribute group counts the part's.
Ways ChannelWay(const ShapeContext& c, const ConvOperands& at) {
  std::optional<SplitWay> way = WayAlong(c, 1);
  if (!way || !SplitOperand(c, *way, at.weight, 0)) return {};
  if (HasOperand(c, at.bias) && !SplitOperand(c, *way, at.bias, 0)) return {};
  const int64_t group = IntAttribute(c.node, "group", 1);
  if (group == 1) return {*std::move(way)};
  const OptDim& inputs = (*c.shape(0))[1];
  if (group < 1 || !inputs || !inputs->is_constant() ||
      !way->extent.is_constant()) {
    return {};
  }
  const int64_t inputs_each = inputs->constant() / group;
  const int64_t outputs_each = way->extent.constant() / group;
  if (inputs_each < 1 || outputs_each < 1 ||
      inputs_each * group != inputs->constant() ||
      outputs_each * group != way->extent.constant()) {
    return {};
  }
  const int64_t common = std::gcd(inputs_each, outputs_each);
  way->operands[0] = {.axis = 1,
                      .num = Dim(inputs_each / common),
                      .den = Dim(outputs_each / common)};
  way->grain = Dim(outputs_each);
  way->attributes.push_back({.name = "group", .num = 1, .den = outputs_each});
  return {*std::move(way)};
}

void Append(Ways more, Ways* ways) {
  for (SplitWay& way : more) ways->push_back(std::move(way));
}

}  // namespace

Ways Conv(const ShapeContext& c) {
  const ConvOperands at;
  if (!IsConvolution(c, at)) return {};
  Ways ways = BatchWay(c);
  Append(ChannelWay(c, at), &ways);
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
