#include "grad/updates.h"

namespace onnx_memopt::grad {

using ir::ElementType;
using ir::ValueId;

std::vector<std::string> StateSuffixes(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kMomentum:
      return {"momentum"};
    case Optimizer::kAdam:
    case Optimizer::kAdamW:
      return {"adam_m", "adam_v"};
    case Optimizer::kNone:
    case Optimizer::kSgd:
      break;
  }
  return {};
}

Updates::Updates(rewrite::Emitter* emitter, const StepOptions& options,
                 ValueId learning_rate, ValueId step)
    : e_(*emitter),
      options_(options),
      learning_rate_(learning_rate),
      step_(step) {}

ValueId Updates::Rate(ElementType element) {
  const auto [it, added] = rates_.try_emplace(element, ir::kNoValue);
  if (added) it->second = e_.Cast(learning_rate_, element);
  return it->second;
}

Updates::Next Updates::Update(ValueId p, ValueId g,
                              const std::vector<ValueId>& states) {
  if (options_.weight_decay != 0 && options_.optimizer != Optimizer::kAdamW) {
    g = e_.Add(g, e_.Mul(p, options_.weight_decay));
  }
  switch (options_.optimizer) {
    case Optimizer::kMomentum:
      return Momentum(p, g, states[0]);
    case Optimizer::kAdam:
    case Optimizer::kAdamW:
      return Adam(p, g, states[0], states[1]);
    case Optimizer::kNone:
    case Optimizer::kSgd:
      break;
  }
  return {e_.Sub(p, e_.Mul(g, Rate(e_.element(p)))), {}};
}

Updates::Next Updates::Momentum(ValueId p, ValueId g, ValueId velocity) {
  const ValueId next = e_.Add(e_.Mul(velocity, options_.momentum), g);
  const ValueId direction =
      options_.nesterov ? e_.Add(e_.Mul(next, options_.momentum), g) : next;
  return {e_.Sub(p, e_.Mul(direction, Rate(e_.element(p)))), {next}};
}

const Updates::AdamScalars& Updates::Scalars(ElementType element) {
  const auto [it, added] = adam_.try_emplace(element);
  if (!added) return it->second;
  // In double: 1 - beta^step cancels.
  constexpr ElementType kDouble = ElementType::kDouble;
  const ValueId updates = e_.Cast(e_.Op("Add", {step_, e_.Int(1)}), kDouble);
  const auto bias = [&](double beta) {
    return e_.RSub(1, e_.Op("Pow", {e_.Real(beta, kDouble), updates}));
  };
  const ValueId rate = e_.Cast(learning_rate_, kDouble);
  it->second.rate = e_.Cast(e_.Div(rate, bias(options_.beta1)), element);
  it->second.second =
      e_.Cast(e_.Op("Reciprocal", {e_.Sqrt(bias(options_.beta2))}), element);
  it->second.kept =
      e_.Cast(e_.RSub(1, e_.Mul(rate, options_.weight_decay)), element);
  return it->second;
}

Updates::Next Updates::Adam(ValueId p, ValueId g, ValueId m, ValueId v) {
  const AdamScalars s = Scalars(e_.element(p));
  const ValueId m_next =
      e_.Add(e_.Mul(m, options_.beta1), e_.Mul(g, 1 - options_.beta1));
  const ValueId v_next = e_.Add(e_.Mul(v, options_.beta2),
                                e_.Mul(e_.Square(g), 1 - options_.beta2));
  const ValueId root = e_.Mul(e_.Sqrt(v_next), s.second);
  const ValueId direction = e_.Div(m_next, e_.Add(root, options_.epsilon));
  const bool decays =
      options_.optimizer == Optimizer::kAdamW && options_.weight_decay != 0;
  const ValueId kept = decays ? e_.Mul(p, s.kept) : p;
  return {e_.Sub(kept, e_.Mul(direction, s.rate)), {m_next, v_next}};
}

}  // namespace onnx_memopt::grad
