// Gradients of the losses that ONNX has ops for. Class scores are
// [n, classes, positions...], targets [n, positions...].
#include <string>
#include <vector>

#include "grad/rule_list.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

struct Weighting {
  ValueId target;  // [n, positions...], ignored ones made class 0
  ValueId slope;   // of the loss by the chosen log probability, the same shape
};

// What one position counts, times dy, with the sign of the loss.
absl::StatusOr<Weighting> Weigh(RuleContext& c) {
  Emitter& e = c.e();
  const ir::ElementType element = c.x_type().element;
  ValueId target = e.Cast(c.x(1), ir::ElementType::kInt64);
  ValueId counts = ir::kNoValue;
  const Emitter::Attributes none;
  const bool ignores = [&] {
    for (const ir::Attribute& a : c.node().attributes) {
      if (a.name == "ignore_index") return true;
    }
    return false;
  }();
  if (ignores) {
    const ValueId ignored =
        e.Op("Equal", {target, e.Int(c.Int("ignore_index", -100))});
    target = e.Where(ignored, e.Int(0), target);
    counts = e.Where(ignored, e.Real(0, element), e.Real(1, element));
  }
  if (c.has(2)) {
    const ValueId weight = e.Op("Gather", {c.x(2), target});
    counts = counts == ir::kNoValue ? weight : e.Mul(weight, counts);
  }
  const std::string reduction = c.String("reduction", "mean");
  if (counts == ir::kNoValue) {
    counts = e.Expand(e.Real(1, element), e.ShapeOf(target));
  }
  ValueId slope = e.Neg(e.Mul(counts, c.dy()));
  if (reduction == "mean") {
    ASSIGN_OR_RETURN(const size_t rank, c.Rank(1));
    Emitter::Axes axes;
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int>(i));
    slope = e.Div(slope, e.ReduceSum(counts, axes));
  }
  return Weighting{target, slope};
}

// The slopes at the places of the targets, zero at all other classes.
ValueId AtTargets(Emitter& e, const Weighting& w, ValueId scores) {
  return e.Op("ScatterElements",
              {e.Zeros(e.element(scores), e.ShapeOf(scores)),
               e.Unsqueeze(w.target, {1}), e.Unsqueeze(w.slope, {1})},
              {Attr("axis", int64_t{1})});
}

}  // namespace

absl::Status NegativeLogLikelihoodLoss(RuleContext& c) {
  ASSIGN_OR_RETURN(const Weighting w, Weigh(c));
  return c.Give(0, AtTargets(c.e(), w, c.x_id(0)));
}

absl::Status SoftmaxCrossEntropyLoss(RuleContext& c) {
  Emitter& e = c.e();
  ValueId through = ir::kNoValue;  // the gradient of the log probabilities
  if (c.dy(0) != ir::kNoValue) {
    ASSIGN_OR_RETURN(const Weighting w, Weigh(c));
    through = AtTargets(e, w, c.x_id(0));
  }
  if (c.dy(1) != ir::kNoValue) {
    through = through == ir::kNoValue ? c.dy(1) : e.Add(through, c.dy(1));
  }
  const ValueId probability =
      c.has_result(1) ? e.Exp(c.y(1))
                      : e.Op("Softmax", {c.x(0)}, {Attr("axis", int64_t{1})});
  return c.Give(0,
                e.Sub(through, e.Mul(probability, e.ReduceSum(through, {1}))));
}

}  // namespace onnx_memopt::grad::rules
