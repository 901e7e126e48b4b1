// Ops whose result has the shape of an operand, or of several broadcast. What
// they compute on known contents is in shape_arithmetic.cc.
#include <algorithm>
#include <utility>

#include "ir/shape_arithmetic.h"
#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

std::optional<Shape> ShapeOfOperand(const ShapeContext& c, size_t i) {
  const Shape* shape = c.shape(i);
  if (shape == nullptr) return std::nullopt;
  return *shape;
}

// Before opset 7, binary ops took their shape from the first operand, and an
// attribute said how the second was broadcast.
std::optional<Shape> ElementwiseShape(const ShapeContext& c) {
  if (IsOnnxBefore(c.node, 7)) return ShapeOfOperand(c, 0);
  return BroadcastOperands(c, 0, c.operand_types.size());
}

// Computes the result's contents element by element from those of operands
// [0, count), broadcast.
template <typename Compute>
void CombineContents(ShapeContext& c, size_t count, Compute compute) {
  if (IsOnnxBefore(c.node, 7)) return;
  const std::optional<SmallDims> dims = ResultDims(c);
  if (!dims) return;
  std::vector<Contents> operands;
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    const Contents* source = ContentsOf(c, i);
    std::optional<Contents> expanded =
        source == nullptr ? UnknownContents(*dims) : Expanded(*source, *dims);
    if (!expanded) return;
    any |= source != nullptr;
    operands.push_back(*std::move(expanded));
  }
  if (!any) return;
  Contents result = UnknownContents(*dims);
  const bool numbers_only = result.elements.size() > kMaxSymbolicElements;
  std::vector<Element> arguments(count);
  for (size_t n = 0; n < result.elements.size(); ++n) {
    bool skip = false;
    for (size_t i = 0; i < count; ++i) {
      arguments[i] = operands[i].elements[n];
      skip |= numbers_only && arguments[i].integer &&
              !arguments[i].integer->is_constant();
    }
    if (!skip) result.elements[n] = compute(arguments);
  }
  SetContents(c, 0, std::move(result));
}

void ConvertContents(ShapeContext& c, ElementType from, ElementType to) {
  const Contents* source = ContentsOf(c, 0);
  if (source == nullptr) return;
  Contents result = *source;
  for (Element& element : result.elements) {
    element = ConvertElement(element, from, to);
  }
  SetContents(c, 0, std::move(result));
}

}  // namespace

bool SameAsFirst(ShapeContext& c) {
  if (c.operand_types.empty() || c.operand_types[0] == nullptr ||
      c.result_types.empty()) {
    return false;
  }
  if (c.tensor(0) != nullptr) {
    SetResult(c, 0, ElementOf(c, 0), ShapeOfOperand(c, 0));
  } else {
    c.result_types[0] = *c.operand_types[0];
  }
  if (c.node.op_type == "Identity" && ContentsOf(c, 0) != nullptr &&
      !c.result_contents.empty()) {
    c.result_contents[0] = c.operand_contents[0];
  }
  return Complete(c);
}

bool BroadcastFloat(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), ElementwiseShape(c));
  return Complete(c);
}

bool Arithmetic(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  SetResult(c, 0, type, ElementwiseShape(c));
  const size_t count = c.operand_types.size();
  const BinaryOp op{c.node.op_type, IntAttribute(c.node, "fmod", 0) == 1};
  CombineContents(c, count, [&](const std::vector<Element>& arguments) {
    // Min, Max and Sum take any number of operands.
    Element result = arguments[0];
    for (size_t i = 1; i < count; ++i) {
      result = ComputeBinary(op, type, result, arguments[i]);
    }
    return result;
  });
  return Complete(c);
}

bool Comparison(ShapeContext& c) {
  SetResult(c, 0, ElementType::kBool, ElementwiseShape(c));
  if (c.operand_types.size() == 2) {
    CombineContents(c, 2, [&](const std::vector<Element>& arguments) {
      return Compare(c.node.op_type, arguments[0], arguments[1]);
    });
  }
  return Complete(c);
}

bool UnaryArithmetic(ShapeContext& c) {
  const ElementType type =
      c.node.op_type == "Not" ? ElementType::kBool : ElementOf(c, 0);
  SetResult(c, 0, type, ShapeOfOperand(c, 0));
  if (const Contents* source = ContentsOf(c, 0)) {
    Contents result = *source;
    for (Element& element : result.elements) {
      element = ComputeUnary(c.node.op_type, type, element);
    }
    SetContents(c, 0, std::move(result));
  }
  return Complete(c);
}

bool BoolLikeFirst(ShapeContext& c) {
  if (c.node.op_type == "Not") return UnaryArithmetic(c);
  SetResult(c, 0, ElementType::kBool, ShapeOfOperand(c, 0));
  return Complete(c);
}

bool Cast(ShapeContext& c) {
  const ElementType to = RequestedType(c.node, "to");
  SetResult(c, 0, to, ShapeOfOperand(c, 0));
  ConvertContents(c, ElementOf(c, 0), to);
  return Complete(c);
}

bool CastLike(ShapeContext& c) {
  const ElementType to = ElementOf(c, 1);
  SetResult(c, 0, to, ShapeOfOperand(c, 0));
  ConvertContents(c, ElementOf(c, 0), to);
  return Complete(c);
}

bool Where(ShapeContext& c) {
  ElementType type = ElementOf(c, 1);
  if (type == ElementType::kUndefined) type = ElementOf(c, 2);
  SetResult(c, 0, type, BroadcastOperands(c, 0, 3));
  if (c.operand_types.size() == 3) {
    CombineContents(c, 3, [](const std::vector<Element>& arguments) {
      const std::optional<int64_t> condition = AsConstant(arguments[0]);
      if (condition) return arguments[*condition != 0 ? 1 : 2];
      const Element& x = arguments[1];
      const Element& y = arguments[2];
      const bool same = x.known() && x.integer == y.integer && x.real == y.real;
      return same ? x : Element{};
    });
  }
  return Complete(c);
}

bool Dropout(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), ShapeOfOperand(c, 0));
  // The mask was of the data's type before opset 10.
  SetResult(c, 1,
            IsOnnxBefore(c.node, 10) ? ElementOf(c, 0) : ElementType::kBool,
            ShapeOfOperand(c, 0));
  return Complete(c);
}

bool QuantizeLinear(ShapeContext& c) {
  ElementType type = RequestedType(c.node, "output_dtype");
  if (HasOperand(c, 2)) {
    type = ElementOf(c, 2);
  } else if (type == ElementType::kUndefined) {
    type = ElementType::kUint8;
  }
  SetResult(c, 0, type, ShapeOfOperand(c, 0));
  return Complete(c);
}

bool DequantizeLinear(ShapeContext& c) {
  ElementType type = RequestedType(c.node, "output_dtype");
  if (type == ElementType::kUndefined) type = ElementOf(c, 1);
  SetResult(c, 0, type, ShapeOfOperand(c, 0));
  return Complete(c);
}

bool DynamicQuantizeLinear(ShapeContext& c) {
  SetResult(c, 0, ElementType::kUint8, ShapeOfOperand(c, 0));
  SetResult(c, 1, ElementType::kFloat, Shape{});
  SetResult(c, 2, ElementType::kUint8, Shape{});
  return Complete(c);
}

bool RandomLike(ShapeContext& c) {
  ElementType type = RequestedType(c.node, "dtype");
  if (type == ElementType::kUndefined) type = ElementOf(c, 0);
  SetResult(c, 0, type, ShapeOfOperand(c, 0));
  return Complete(c);
}

bool EyeLike(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  if (shape != nullptr && shape->size() != 2) return false;
  return RandomLike(c);
}

}  // namespace onnx_memopt::ir::shape_rules
