// What the files shape_rules_*.cc share. Everything here accepts any operands:
// what is missing or makes no sense is nullopt or null, never an error.
#ifndef ONNX_MEMOPT_LIB_IR_SHAPE_RULE_UTIL_H_
#define ONNX_MEMOPT_LIB_IR_SHAPE_RULE_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"  // graph.h names absl::StatusOr
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/shape_rules.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir::shape_rules {

using OptDim = std::optional<Dim>;

// No result has a higher rank: a bound on what a list attribute can ask for.
inline constexpr size_t kMaxRank = 2048;
// Larger contents are followed as numbers only; formulas in them would cost
// more than any real shape computation needs.
inline constexpr size_t kMaxSymbolicElements = 64;

// Arithmetic on what may be unknown.
OptDim Plus(const OptDim& a, const OptDim& b);
OptDim Minus(const OptDim& a, const OptDim& b);
OptDim Times(const OptDim& a, const OptDim& b);
OptDim Floored(const OptDim& a, const OptDim& b);
OptDim Ceiled(const OptDim& a, const OptDim& b);

// True if the node is of ai.onnx and of an opset before `version`.
bool IsOnnxBefore(const Node& node, int version);
bool HasAttribute(const Node& node, absl::string_view name);

// The element type whose number the attribute is; kUndefined if it is none.
ElementType RequestedType(const Node& node, absl::string_view attribute);

bool IsInteger(ElementType type);  // of 8 bits or more
bool IsFloat(ElementType type);
// True if an element of `type` can hold `value`.
bool Holds(ElementType type, int64_t value);
// `value` as an element of `type`; nullopt where rounding to it is not
// modelled.
std::optional<double> RoundTo(ElementType type, double value);
// `value` as an element of `type`, which may be any.
Element MakeElement(ElementType type, const OptDim& value);
// An element as an integer, if it is one.
OptDim AsInteger(const Element& element);
std::optional<int64_t> AsConstant(const Element& element);

ElementType ElementOf(const ShapeContext& c, size_t i);
// True if the operand is there, whether or not anything is known of it.
bool HasOperand(const ShapeContext& c, size_t i);
// The contents of operand i; null if not known or inconsistent.
const Contents* ContentsOf(const ShapeContext& c, size_t i);
// The only element of operand i.
std::optional<Element> ScalarOf(const ShapeContext& c, size_t i);

// A list of integers that is an attribute in older opsets and an operand in
// newer ones.
struct IntList {
  bool given = false;
  std::optional<std::vector<int64_t>> values;  // nullopt: not (all) known
  std::optional<int64_t> size;
};
IntList ListOf(const ShapeContext& c, absl::string_view attribute,
               size_t operand);
// The elements of a list operand; nullopt if even their number is unknown.
std::optional<std::vector<OptDim>> DimsOf(const ShapeContext& c,
                                          size_t operand);

// An axis counted from either end.
std::optional<size_t> NormalizeAxis(int64_t axis, size_t rank);
// nullopt if one is out of range or given twice.
std::optional<std::vector<size_t>> NormalizeAxes(absl::Span<const int64_t> axes,
                                                 size_t rank);

// Two dims of which the model says that they are equal: what is known of
// either. Sets *conflict if they are different numbers.
OptDim MergeEqual(const OptDim& a, const OptDim& b, bool* conflict);
// Numpy's broadcasting; nullopt if the shapes do not fit.
std::optional<Shape> Broadcast(const Shape& a, const Shape& b);
// The broadcast shape of operands [begin, end).
std::optional<Shape> BroadcastOperands(const ShapeContext& c, size_t begin,
                                       size_t end);
// Elements of shape[begin, end).
OptDim Product(const Shape& shape, size_t begin, size_t end);

// --- Contents ---

using SmallDims = llvm::SmallVector<int64_t, 2>;

// The shape as numbers, if it is one of a tensor small enough to follow.
std::optional<SmallDims> ConstantDims(const std::optional<Shape>& shape);
size_t CountOf(absl::Span<const int64_t> dims);
// Row-major strides, in elements. Requires a small tensor.
std::vector<int64_t> StridesOf(absl::Span<const int64_t> dims);
// Elements of `source` at offset + sum(index[i] * strides[i]) over all indices
// within `dims`. Requires all of those to be in range.
Contents Strided(const Contents& source, SmallDims dims, int64_t offset,
                 absl::Span<const int64_t> strides);
// `source` broadcast to `dims`; nullopt if it cannot be.
std::optional<Contents> Expanded(const Contents& source, const SmallDims& dims);
// Contents of that shape of which no element is known.
Contents UnknownContents(SmallDims dims);

// --- Results ---

// Sets result i, if there is such a result; drops dims that are negative.
void SetResult(ShapeContext& c, size_t i, ElementType element,
               std::optional<Shape> shape);
// Drops contents that are too large or of which nothing is known.
void SetContents(ShapeContext& c, size_t i, Contents contents);
// The shape of result 0 as numbers, if there is a result and it is small.
std::optional<SmallDims> ResultDims(const ShapeContext& c);
// The operand's contents under the shape of the result, for views.
void ReshapeContents(ShapeContext& c, size_t operand);
// True if every result's element type and dims are set.
bool Complete(const ShapeContext& c);

}  // namespace onnx_memopt::ir::shape_rules

#endif  // ONNX_MEMOPT_LIB_IR_SHAPE_RULE_UTIL_H_
