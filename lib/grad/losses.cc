#include "grad/losses.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;

// 1 / (elements of `value`, an input), as a scalar.
ValueId OneOverElements(Emitter& e, ValueId value, ElementType element) {
  const ir::Shape* shape = e.shape(value);
  const std::optional<ir::Dim> count =
      shape == nullptr ? std::optional<ir::Dim>() : NumElements(*shape);
  if (count && count->is_constant() && count->constant() > 0) {
    return e.Real(1 / static_cast<double>(count->constant()), element);
  }
  return e.Op("Reciprocal", {e.Cast(e.Op("Size", {value}), element)});
}

Emitter::Axes AllAxes(Emitter& e, ValueId value) {
  Emitter::Axes axes;
  for (size_t i = 0; i < e.shape(value)->size(); ++i) {
    axes.push_back(static_cast<int>(i));
  }
  return axes;
}

ValueId Weighted(Emitter& e, ValueId share, const LossWeight& weight) {
  if (weight.factor != 1) share = e.Mul(share, weight.factor);
  if (weight.scale == ir::kNoValue) return share;
  return e.Mul(share, e.Cast(weight.scale, e.element(share)));
}

// Rows of classes.
ValueId Rows(Emitter& e, ValueId output) {
  const ir::Shape& shape = *e.shape(output);
  if (shape.size() == 2) return output;
  return e.Reshape(output, Emitter::Axes{-1, shape.back()->constant()});
}

// What each row counts in the mean.
struct RowCount {
  ValueId index = ir::kNoValue;   // [rows, 1]: the class, 0 where left out
  ValueId share = ir::kNoValue;   // of each row in the mean
  ValueId counts = ir::kNoValue;  // [rows, 1]: 0 for a row that is left out
  ValueId count = ir::kNoValue;   // how many are not
};

RowCount CountRows(Emitter& e, ValueId target,
                   std::optional<int64_t> ignore_index, ElementType element,
                   const LossWeight& weight) {
  RowCount rows = {.index = e.Reshape(target, Emitter::Axes{-1, 1})};
  if (!ignore_index) {
    rows.share = OneOverElements(e, target, element);
    return rows;
  }
  const ValueId ignored = e.Op("Equal", {rows.index, e.Int(*ignore_index)});
  rows.index = e.Where(ignored, e.Int(0), rows.index);
  rows.counts = e.Where(ignored, e.Real(0, element), e.Real(1, element));
  rows.count = e.ReduceSum(rows.counts, {0, 1}, /*keep_dims=*/false);
  rows.share =
      weight.sum
          ? e.Real(1, element)
          : e.Op("Reciprocal", {e.Op("Max", {rows.count, e.Real(1, element)})});
  return rows;
}

// From the difference of two distributions, row by row, to the gradient by the
// output.
ValueId RowGradient(Emitter& e, ValueId difference, const RowCount& rows,
                    const LossWeight& weight, ValueId output) {
  const ValueId weighted = Weighted(e, rows.share, weight);
  ValueId gradient = e.Mul(difference, rows.counts == ir::kNoValue
                                           ? weighted
                                           : e.Mul(rows.counts, weighted));
  if (e.shape(output)->size() != 2) {
    gradient = e.ReshapeLike(gradient, output);
  }
  e.graph().mutable_value(gradient).type = ir::Type(e.type(output));
  return gradient;
}

}  // namespace

absl::StatusOr<ir::Type> ClassTargets(const ir::Type& output) {
  if (!output.shape || output.shape->empty()) {
    return absl::InvalidArgumentError(
        "cross-entropy needs an output of known rank, with the classes on its "
        "last axis");
  }
  if (!output.shape->back() || !output.shape->back()->is_constant()) {
    return absl::InvalidArgumentError(
        "cross-entropy needs a known number of classes, the output's last "
        "axis");
  }
  return ir::Type::Tensor(
      ElementType::kInt64,
      ir::Shape(output.shape->begin(), output.shape->end() - 1));
}

absl::StatusOr<LossValue> CrossEntropy(Emitter& e, ValueId output,
                                       ValueId target,
                                       std::optional<int64_t> ignore_index,
                                       const LossWeight& weight) {
  const ElementType element = e.element(output);
  const ir::Shape shape = *e.shape(output);
  const int64_t classes = shape.back()->constant();
  const ValueId rows = Rows(e, output);
  const auto [index, share, counts, count] =
      CountRows(e, target, ignore_index, element, weight);
  const ValueId log_probability =
      e.Op("LogSoftmax", {rows}, {Attr("axis", int64_t{1})});
  ValueId picked = e.Op("GatherElements", {log_probability, index},
                        {Attr("axis", int64_t{1})});
  ValueId loss;
  if (ignore_index) {
    const ValueId kept = e.Mul(picked, e.Mul(counts, share));
    loss = e.Neg(e.ReduceSum(kept, {0, 1}, /*keep_dims=*/false));
  } else {
    loss = e.Neg(e.ReduceMean(picked, {0, 1}, /*keep_dims=*/false));
  }
  // (probability - 1 at the target) / rows
  const ValueId probability = e.Exp(log_probability);
  ValueId difference;
  if (element != ElementType::kFloat16 && element != ElementType::kBfloat16) {
    const ValueId minus_one =
        e.Expand(e.Real(-1, element), e.Op("Shape", {index}));
    difference =
        e.Op("ScatterElements", {probability, index, minus_one},
             {Attr("axis", int64_t{1}), Attr("reduction", std::string("add"))});
  } else {
    const ValueId values = e.builder().Reals(ir::kMainBlock, "memopt/off_on",
                                             element, {2}, {0, 1});
    const ValueId chosen =
        e.Op("OneHot", {e.Squeeze(index, {1}), e.Int(classes), values},
             {Attr("axis", int64_t{1})});
    difference = e.Sub(probability, chosen);
  }
  const ValueId gradient =
      RowGradient(e, difference, {index, share, counts, count}, weight, output);
  return LossValue{loss, gradient, weight.sum ? count : ir::kNoValue};
}

absl::StatusOr<LossValue> SoftCrossEntropy(Emitter& e, ValueId output,
                                           ValueId teacher, ValueId target,
                                           std::optional<int64_t> ignore_index,
                                           double temperature,
                                           const LossWeight& weight) {
  const ElementType element = e.element(output);
  const int64_t classes = e.shape(output)->back()->constant();
  RowCount rows;
  if (ignore_index) {
    rows = CountRows(e, target, ignore_index, element, weight);
  } else {
    rows.share = e.Mul(OneOverElements(e, output, element),
                       static_cast<double>(classes));
  }
  // The student's first, then what reads both, then what is the teacher's
  // alone: OrderTeacherForDepthFirst has the reason.
  const auto log_softmax = [&](ValueId logits) {
    return e.Op("LogSoftmax", {e.Mul(Rows(e, logits), 1 / temperature)},
                {Attr("axis", int64_t{1})});
  };
  const ValueId log_student = log_softmax(output);
  const ValueId student = e.Exp(log_student);
  const ValueId log_teacher = log_softmax(e.Cast(teacher, element));
  const ValueId probability = e.Exp(log_teacher);
  const ValueId crossed = e.ReduceSum(e.Mul(probability, log_student), {1});
  const ValueId own = e.ReduceSum(e.Mul(probability, log_teacher), {1});
  ValueId divergence = e.Sub(own, crossed);  // [rows, 1]
  if (ignore_index) divergence = e.Mul(divergence, rows.counts);
  const ValueId sum = e.ReduceSum(divergence, {0, 1}, /*keep_dims=*/false);
  const double square = temperature * temperature;
  const ValueId loss = e.Mul(e.Mul(sum, rows.share), square);
  // T^2 * (student - teacher) / T
  LossWeight scaled = weight;
  scaled.factor *= temperature;
  const ValueId gradient =
      RowGradient(e, e.Sub(student, probability), rows, scaled, output);
  return LossValue{loss, gradient, weight.sum ? rows.count : ir::kNoValue};
}

absl::StatusOr<LossValue> MeanSquaredError(Emitter& e, ValueId output,
                                           ValueId target,
                                           const LossWeight& weight) {
  if (e.shape(output) == nullptr) {
    return absl::InvalidArgumentError("mse needs an output of known rank");
  }
  const ElementType element = e.element(output);
  const ValueId difference = e.Sub(output, target);
  const Emitter::Axes axes = AllAxes(e, output);
  const ValueId loss =
      e.ReduceMean(e.Square(difference), axes, /*keep_dims=*/false);
  const ValueId share = OneOverElements(e, target, element);
  const ValueId gradient =
      e.Mul(difference, Weighted(e, e.Mul(share, 2), weight));
  return LossValue{loss, gradient};
}

absl::StatusOr<LossValue> OutputAsLoss(Emitter& e, ValueId output,
                                       const LossWeight& weight) {
  const ir::Shape* shape = e.shape(output);
  const std::optional<ir::Dim> count =
      shape == nullptr ? std::optional<ir::Dim>() : NumElements(*shape);
  if (!count || *count != ir::Dim(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("output \"", Printable(e.graph().value(output).name),
                     "\" is taken as the loss, but is not known to be one "
                     "number"));
  }
  const Emitter::Axes ones(shape->size(), 1);
  const ElementType element = e.element(output);
  const ValueId one =
      e.builder().Reals(ir::kMainBlock, "memopt/seed", element, ones, {1});
  return LossValue{output, Weighted(e, one, weight)};
}

}  // namespace onnx_memopt::grad
