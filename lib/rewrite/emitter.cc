#include "onnx_memopt/rewrite/emitter.h"

#include <algorithm>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::ElementType;
using ir::ValueId;

constexpr int kSqueezeAxesOperandSince = 13;
constexpr int kSumAxesOperandSince = 13;
constexpr int kReduceAxesOperandSince = 18;

// Whether the second permutation, null for the reverse, is taken back by the
// first.
bool Undoes(absl::Span<const int64_t> perm, const std::vector<int64_t>* other) {
  const auto rank = static_cast<int64_t>(perm.size());
  if (other != nullptr && other->size() != perm.size()) return false;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = perm[static_cast<size_t>(i)];
    const int64_t from = other == nullptr ? rank - 1 - axis
                                          : (*other)[static_cast<size_t>(axis)];
    if (from != i) return false;
  }
  return true;
}

std::vector<ir::Type> ResultTypes(const ir::Graph& graph, const ir::Node& node,
                                  ir::ShapeContext* c) {
  for (ValueId operand : node.operands) {
    const bool given = operand != ir::kNoValue;
    c->operand_types.push_back(given ? &graph.value(operand).type : nullptr);
    c->operand_contents.push_back(given ? graph.value(operand).contents
                                        : nullptr);
  }
  c->result_types.resize(node.results.size());
  c->result_contents.resize(node.results.size());
  const ir::OpInfo& info = ir::FindOpInfo(node.domain, node.op_type);
  if (info.shape != nullptr) info.shape(*c);
  for (ir::Type& type : c->result_types) {
    if (type.element == ElementType::kUndefined && !node.operands.empty() &&
        c->operand_types[0] != nullptr) {
      type = ir::Type::Tensor(c->operand_types[0]->element, type.shape);
    }
  }
  return std::move(c->result_types);
}

}  // namespace

ir::Attribute Attr(absl::string_view name, ir::AttributeValue value) {
  return {.name = std::string(name), .value = std::move(value)};
}

std::vector<ValueId> Emitter::Ops(absl::string_view op_type,
                                  absl::Span<const ValueId> operands,
                                  size_t results, Attributes attributes) {
  ir::Node node;
  node.op_type = std::string(op_type);
  node.opset = opset();
  node.operands.assign(operands.begin(), operands.end());
  node.results.resize(results, ir::kNoValue);
  node.attributes = attributes;
  ir::ShapeContext context{.node = node};
  std::vector<ir::Type> types = ResultTypes(graph_, node, &context);
  std::vector<ValueId> values;
  const std::string base = absl::StrCat(prefix_, "/", op_type);
  for (size_t i = 0; i < results; ++i) {
    values.push_back(builder_.Value(block_, std::move(types[i]), base));
    graph_.mutable_value(values.back()).contents =
        std::move(context.result_contents[i]);
  }
  nodes_.push_back(builder_.Node(block_, op_type, operands, values, base,
                                 std::move(attributes)));
  return values;
}

ValueId Emitter::Op(absl::string_view op_type,
                    absl::Span<const ValueId> operands, Attributes attributes) {
  return Ops(op_type, operands, 1, std::move(attributes)).front();
}

ValueId Emitter::Real(double value, ElementType element) {
  const auto [it, added] =
      reals_.try_emplace(std::pair(element, value), ir::kNoValue);
  if (added) {
    it->second = builder_.Real(block_, "memopt/number", element, value);
  }
  return it->second;
}

ValueId Emitter::Int(int64_t value) {
  const auto [it, added] = scalars_.try_emplace(value, ir::kNoValue);
  if (added) it->second = builder_.Int64(block_, "memopt/integer", value);
  return it->second;
}

ValueId Emitter::Ints(absl::Span<const int64_t> values) {
  const auto [it, added] = lists_.try_emplace(
      std::vector<int64_t>(values.begin(), values.end()), ir::kNoValue);
  if (added) it->second = builder_.Int64s(block_, "memopt/integers", values);
  return it->second;
}

ValueId Emitter::Cast(ValueId a, ElementType to) {
  if (element(a) == to) return a;
  return Op("Cast", {a}, {Attr("to", static_cast<int64_t>(to))});
}

ValueId Emitter::Transpose(ValueId a, Axes perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return a;
  if (graph_.value(a).kind == ir::ValueKind::kResult) {
    const ir::Node& before = graph_.node(graph_.value(a).producer);
    if (before.op_type == "Transpose" && before.domain.empty() &&
        Undoes(perm, ir::IntsAttribute(before, "perm"))) {
      return before.operands[0];
    }
  }
  return Op("Transpose", {a}, {Attr("perm", std::move(perm))});
}

ValueId Emitter::SwapLastAxes(ValueId a) {
  Axes perm;
  for (size_t i = 0; i < shape(a)->size(); ++i) {
    perm.push_back(static_cast<int64_t>(i));
  }
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return Transpose(a, std::move(perm));
}

ValueId Emitter::Reshape(ValueId a, absl::Span<const int64_t> dims) {
  return Op("Reshape", {a, Ints(dims)});
}

ValueId Emitter::Unsqueeze(ValueId a, const Axes& axes) {
  if (axes.empty()) return a;
  if (opset() < kSqueezeAxesOperandSince) {
    return Op("Unsqueeze", {a}, {Attr("axes", axes)});
  }
  return Op("Unsqueeze", {a, Ints(axes)});
}

ValueId Emitter::Squeeze(ValueId a, const Axes& axes) {
  if (axes.empty()) return a;
  if (opset() < kSqueezeAxesOperandSince) {
    return Op("Squeeze", {a}, {Attr("axes", axes)});
  }
  return Op("Squeeze", {a, Ints(axes)});
}

ValueId Emitter::Reduce(absl::string_view op_type, ValueId a, const Axes& axes,
                        bool keep_dims, int axes_operand_since) {
  if (axes.empty()) return a;
  ir::Attribute keep = Attr("keepdims", static_cast<int64_t>(keep_dims));
  if (opset() < axes_operand_since) {
    return Op(op_type, {a}, {std::move(keep), Attr("axes", axes)});
  }
  return Op(op_type, {a, Ints(axes)}, {std::move(keep)});
}

ValueId Emitter::ReduceSum(ValueId a, const Axes& axes, bool keep_dims) {
  return Reduce("ReduceSum", a, axes, keep_dims, kSumAxesOperandSince);
}

ValueId Emitter::ReduceMean(ValueId a, const Axes& axes, bool keep_dims) {
  return Reduce("ReduceMean", a, axes, keep_dims, kReduceAxesOperandSince);
}

ValueId Emitter::ReduceMax(ValueId a, const Axes& axes, bool keep_dims) {
  return Reduce("ReduceMax", a, axes, keep_dims, kReduceAxesOperandSince);
}

ValueId Emitter::Slice(ValueId a, const Axes& axes, const Axes& starts,
                       const Axes& ends) {
  return Op("Slice", {a, Ints(starts), Ints(ends), Ints(axes)});
}

ValueId Emitter::Pad(ValueId a, const Axes& pads) {
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) {
    return a;
  }
  return Op("Pad", {a, Ints(pads)});
}

ValueId Emitter::Concat(absl::Span<const ValueId> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return Op("Concat", parts, {Attr("axis", axis)});
}

ValueId Emitter::Zeros(ElementType element, ValueId dims) {
  const ValueId zero =
      zero_ == ir::kNoValue ? Real(0, element) : Cast(zero_, element);
  return Expand(zero, dims);
}

std::optional<ValueId> Emitter::SymbolValue(const std::string& name) {
  const auto known = symbols_.find(name);
  if (known != symbols_.end()) return known->second;
  const ir::Dim symbol = ir::Dim::Symbol(name);
  for (ValueId input : graph_.block(ir::kMainBlock).params) {
    const ir::Shape* dims = shape(input);
    if (dims == nullptr) continue;
    for (size_t axis = 0; axis < dims->size(); ++axis) {
      if (!(*dims)[axis] || *(*dims)[axis] != symbol) continue;
      const auto index = static_cast<int64_t>(axis);
      const ValueId all = Op("Shape", {input});
      const ValueId value = Slice(all, {0}, {index}, {index + 1});
      symbols_.emplace(name, value);
      return value;
    }
  }
  return std::nullopt;
}

std::optional<ValueId> Emitter::DimValue(const ir::Dim& dim) {
  if (dim.is_constant()) return Ints({dim.constant()});
  // A product of sizes; sums are left to the caller.
  absl::btree_set<std::string> names;
  dim.CollectSymbols(&names);
  std::optional<ValueId> product;
  ir::Dim rest = dim;
  for (const std::string& name : names) {
    while (true) {
      const std::optional<ir::Dim> quotient =
          ir::DivideExact(rest, ir::Dim::Symbol(name));
      if (!quotient) break;
      rest = *quotient;
      const std::optional<ValueId> size = SymbolValue(name);
      if (!size) return std::nullopt;
      product = product ? Mul(*product, *size) : *size;
      if (rest.is_constant()) break;
    }
  }
  if (!product || !rest.is_constant()) return std::nullopt;
  if (rest.constant() == 1) return product;
  return Mul(*product, Ints({rest.constant()}));
}

ValueId Emitter::ShapeOf(ValueId value) {
  const ir::Shape* known = shape(value);
  if (known == nullptr) return Op("Shape", {value});
  const ir::Shape dims = *known;  // emitting moves what it points to
  if (std::all_of(dims.begin(), dims.end(),
                  [](const auto& d) { return d && d->is_constant(); })) {
    std::vector<int64_t> numbers;
    for (const auto& dim : dims) numbers.push_back(dim->constant());
    return Ints(numbers);
  }
  std::vector<ValueId> parts;
  for (const auto& dim : dims) {
    const std::optional<ValueId> part =
        dim ? DimValue(*dim) : std::optional<ValueId>();
    if (!part) return Op("Shape", {value});
    parts.push_back(*part);
  }
  return Concat(parts, 0);
}

ValueId Emitter::ReshapeLike(ValueId a, ValueId like) {
  const ir::Shape* target = shape(like);
  if (target == nullptr) return Reshape(a, ShapeOf(like));
  const ir::Shape* current = shape(a);
  if (current != nullptr && *current == *target &&
      std::all_of(target->begin(), target->end(),
                  [](const auto& d) { return d.has_value(); })) {
    return a;
  }
  // One unknown extent follows from the others, unless a zero hides it.
  std::vector<int64_t> dims;
  int open = 0;
  for (const auto& dim : *target) {
    const bool number = dim && dim->is_constant() && dim->constant() != 0;
    open += number ? 0 : 1;
    dims.push_back(number ? dim->constant() : -1);
  }
  if (open > 1) return Reshape(a, ShapeOf(like));
  return Reshape(a, dims);
}

}  // namespace onnx_memopt::rewrite
