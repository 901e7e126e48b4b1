#include "grad/rule_context.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::grad {
namespace {

// Bit 31 of a mask stands for all later ones.
uint32_t Bit(size_t i) { return uint32_t{1} << std::min<size_t>(i, 31); }

absl::StatusOr<Numbers> StaticDims(const RuleContext& c, const ir::Shape* shape,
                                   absl::string_view what) {
  Numbers dims;
  bool known = shape != nullptr;
  for (size_t i = 0; known && i < shape->size(); ++i) {
    const std::optional<ir::Dim>& dim = (*shape)[i];
    known = dim && dim->is_constant();
    if (known) dims.push_back(dim->constant());
  }
  if (known) return dims;
  return c.Error(absl::StrCat(
      "its gradient needs the ", what,
      "'s shape in numbers; give sizes with --dim or --input-shape"));
}

}  // namespace

RuleContext::RuleContext(Emitter* emitter, ir::NodeId node)
    : emitter_(*emitter),
      id_(node),
      node_(emitter->graph().node(node)),
      result_gradients_(node_.results.size(), ir::kNoValue),
      wanted_(node_.operands.size(), false),
      gradients_(node_.operands.size(), ir::kNoValue) {}

ValueId RuleContext::x(size_t i) {
  operands_read_ |= Bit(i);
  return node_.operands[i];
}

ValueId RuleContext::y(size_t i) {
  results_read_ |= Bit(i);
  return node_.results[i];
}

const ir::Type& RuleContext::x_type(size_t i) const {
  return emitter_.type(node_.operands[i]);
}

const ir::Shape* RuleContext::x_shape(size_t i) const {
  return has(i) ? emitter_.shape(node_.operands[i]) : nullptr;
}

const ir::Shape* RuleContext::y_shape(size_t i) const {
  return has_result(i) ? emitter_.shape(node_.results[i]) : nullptr;
}

absl::StatusOr<size_t> RuleContext::Rank(size_t i) const {
  const ir::Shape* shape = x_shape(i);
  if (shape != nullptr) return shape->size();
  return Error(absl::StrCat("the rank of operand ", i, " is unknown"));
}

absl::StatusOr<Numbers> RuleContext::StaticShape(size_t i) const {
  return StaticDims(*this, x_shape(i), absl::StrCat("operand ", i));
}

absl::StatusOr<Numbers> RuleContext::StaticResultShape(size_t i) const {
  return StaticDims(*this, y_shape(i), "result");
}

absl::StatusOr<std::optional<Numbers>> RuleContext::List(
    absl::string_view attribute, size_t operand) const {
  if (const Numbers* given = Ints(attribute)) {
    return std::optional<Numbers>(*given);
  }
  if (!has(operand)) return std::optional<Numbers>();
  absl::StatusOr<Numbers> list = ListOr(operand, {});
  if (!list.ok()) return list.status();
  return std::optional<Numbers>(*std::move(list));
}

absl::StatusOr<Numbers> RuleContext::ListOr(size_t operand,
                                            Numbers otherwise) const {
  if (!has(operand)) return otherwise;
  const auto& contents = emitter_.graph().value(x_id(operand)).contents;
  bool known = contents != nullptr;
  Numbers list;
  for (size_t i = 0; known && i < contents->elements.size(); ++i) {
    const ir::Element& element = contents->elements[i];
    known = element.integer && element.integer->is_constant();
    if (known) list.push_back(element.integer->constant());
  }
  if (known) return list;
  return Error(absl::StrCat("operand ", operand,
                            " is not known before the run, and its gradient "
                            "needs it"));
}

int64_t RuleContext::Int(absl::string_view name, int64_t otherwise) const {
  return ir::IntAttribute(node_, name, otherwise);
}

float RuleContext::Float(absl::string_view name, float otherwise) const {
  return ir::FloatAttribute(node_, name, otherwise);
}

std::string RuleContext::String(absl::string_view name,
                                absl::string_view otherwise) const {
  return ir::StringAttribute(node_, name, otherwise);
}

const Numbers* RuleContext::Ints(absl::string_view name) const {
  return ir::IntsAttribute(node_, name);
}

absl::StatusOr<int64_t> RuleContext::Axis(int64_t axis, size_t rank) const {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) {
    return Error(absl::StrCat("axis ", axis, " is out of range"));
  }
  return axis < 0 ? axis + n : axis;
}

ValueId RuleContext::AskFor(size_t i, ir::Type type) {
  results_read_ |= Bit(i);
  if (has_result(i)) return y_id(i);
  ir::Graph& graph = emitter_.graph();
  const ValueId value = emitter_.builder().Value(
      node_.block, std::move(type),
      absl::StrCat(graph.value(node_.results[0]).name, "/result", i));
  graph.mutable_value(value).producer = id_;
  ir::Node& node = graph.mutable_node(id_);
  node.results.resize(std::max(node.results.size(), i + 1), ir::kNoValue);
  node.results[i] = value;
  node_.results = node.results;
  return value;
}

absl::Status RuleContext::Give(size_t i, ValueId gradient) {
  if (gradient == ir::kNoValue) return absl::OkStatus();
  // What the rules of shapes left open is known: that of the operand.
  const ir::Type type = x_type(i);
  emitter_.graph().mutable_value(gradient).type = type;
  gradients_[i] = gradient;
  return absl::OkStatus();
}

absl::Status RuleContext::GiveBroadcast(size_t i, ValueId gradient) {
  return Give(i, SumToShapeOf(emitter_, gradient, x_id(i)));
}

absl::Status RuleContext::Error(absl::string_view reason) const {
  return absl::InvalidArgumentError(
      absl::StrCat("node \"", Printable(emitter_.graph().DisplayName(id_)),
                   "\" (", Printable(node_.op_type), "): ", reason));
}

ValueId SumToShapeOf(Emitter& e, ValueId gradient, ValueId value) {
  const ir::Shape* from = e.shape(gradient);
  const ir::Shape* to = e.shape(value);
  if (from == nullptr || to == nullptr || from->size() < to->size()) {
    return gradient;
  }
  const size_t extra = from->size() - to->size();
  Emitter::Axes leading;
  Emitter::Axes stretched;
  bool unclear = false;
  for (size_t i = 0; i < extra; ++i) leading.push_back(static_cast<int>(i));
  for (size_t i = extra; i < from->size(); ++i) {
    const auto& whole = (*from)[i];
    const auto& part = (*to)[i - extra];
    const bool one = part && *part == ir::Dim(1);
    if (one && !(whole && *whole == ir::Dim(1))) {
      stretched.push_back(static_cast<int>(i));
    } else if (!one && !(whole && part && *whole == *part) &&
               !(part && part->is_constant())) {
      unclear = true;  // one of the two may be 1 at run time
    }
  }
  if (unclear) {
    // Axes of extent 1 are those to sum over; where nothing was stretched that
    // sums over one element.
    gradient = e.ReduceSum(gradient, leading, /*keep_dims=*/false);
    const ValueId ones = e.Op("Equal", {e.Op("Shape", {value}), e.Ints({1})});
    const ValueId axes = e.Squeeze(e.Op("NonZero", {ones}), {0});
    return e.Op("ReduceSum", {gradient, axes},
                {Attr("keepdims", int64_t{1}),
                 Attr("noop_with_empty_axes", int64_t{1})});
  }
  if (stretched.empty()) {
    return e.ReduceSum(gradient, leading, /*keep_dims=*/false);
  }
  const bool reshape = !leading.empty();
  Emitter::Axes all = leading;
  all.insert(all.end(), stretched.begin(), stretched.end());
  gradient = e.ReduceSum(gradient, all);
  return reshape ? e.Squeeze(gradient, leading) : gradient;
}

}  // namespace onnx_memopt::grad
