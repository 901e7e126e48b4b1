#include "estimate/value_sizes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {

ValueSizes::ValueSizes(const ir::Graph& graph, const GradientFlow& flow,
                       const std::string& batch_symbol)
    : graph_(graph),
      flow_(flow),
      symbolic_(!batch_symbol.empty()),
      one_(analysis::AssumedBindings(graph)),
      two_(one_) {
  if (symbolic_) {
    one_[batch_symbol] = 1;
    two_[batch_symbol] = 2;
    return;
  }
  for (ir::ValueId input : graph.block(ir::kMainBlock).params) {
    const ir::Type& type = graph.value(input).type;
    if (!type.shape || type.shape->empty() || !(*type.shape)[0]) continue;
    const std::optional<int64_t> batch = (*type.shape)[0]->Evaluate(one_);
    if (batch && *batch > 0) model_batch_ = *batch;
    return;
  }
}

std::optional<Amount> ValueSizes::ToAmount(const ir::Dim& dim,
                                           bool depends) const {
  const std::optional<int64_t> one = dim.Evaluate(one_);
  if (!one) return std::nullopt;
  if (symbolic_) {
    const std::optional<int64_t> two = dim.Evaluate(two_);
    if (!two || *two < *one) return Amount{.fixed = *one};
    const int64_t each = *two - *one;
    return Amount{.fixed = *one - each, .per_sample = each};
  }
  if (depends && *one % model_batch_ == 0) {
    return Amount{.per_sample = *one / model_batch_};
  }
  return Amount{.fixed = *one};
}

Amount ValueSizes::Elements(ir::ValueId value,
                            std::vector<std::string>* unknown) const {
  const ir::Type& type = graph_.value(value).type;
  std::optional<Amount> amount;
  if (type.is_tensor() && type.shape) {
    const std::optional<ir::Dim> elements = ir::NumElements(*type.shape);
    if (elements) {
      amount = ToAmount(*elements, flow_.depends_on_input[ir::Index(value)]);
    }
  }
  if (!amount) unknown->push_back(graph_.value(value).name);
  return amount.value_or(Amount{});
}

Amount ValueSizes::Rows(ir::ValueId value, int64_t axis) const {
  const ir::Type& type = graph_.value(value).type;
  if (!type.shape) return {};
  const auto rank = static_cast<int64_t>(type.shape->size());
  if (axis < 0) axis += rank;
  ir::Shape rows;
  for (int64_t i = 0; i < std::min(axis, rank); ++i) {
    rows.push_back((*type.shape)[i]);
  }
  const std::optional<ir::Dim> elements = ir::NumElements(rows);
  if (!elements) return {};
  return ToAmount(*elements, flow_.depends_on_input[ir::Index(value)])
      .value_or(Amount{});
}

int64_t ValueSizes::Bits(ir::ValueId value) const {
  const ir::Value& v = graph_.value(value);
  if (IsFloatingPoint(v)) return 0;
  return BitWidth(v.type.element).value_or(8);
}

Amount Times(const Amount& amount, int64_t factor) {
  return {
      .fixed = CheckedMul(amount.fixed, factor).value_or(INT64_MAX),
      .per_sample = CheckedMul(amount.per_sample, factor).value_or(INT64_MAX)};
}

}  // namespace onnx_memopt::estimate
