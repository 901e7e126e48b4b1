// What the analyses and passes know of an op: one table with a row per op, in
// lib/ir/op_info_*.h, listed in docs/ops.md. An op without a row gets
// UnknownOp(): nothing is assumed of it, and reports count it as of unknown
// cost.
//
//   const OpInfo& info = FindOpInfo("", "Reshape");
//   if (info.view_of == 0) ...  // the result shares its first operand's bytes
#ifndef ONNX_MEMOPT_IR_OP_INFO_H_
#define ONNX_MEMOPT_IR_OP_INFO_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/flow_rules.h"
#include "onnx_memopt/ir/shape_rules.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir {

class Graph;
struct Node;

// How much time it takes to make a result again, next to reading and writing
// it.
enum class RecomputeCost : uint8_t {
  kUnknown,    // do not recompute
  kFree,       // moves no data: views, Shape, constants
  kCheap,      // one pass over the data: elementwise ops, slices, copies
  kModerate,   // a few passes: reductions, normalisation, softmax, pooling
  kExpensive,  // more arithmetic than data: matrix products, convolutions
};

// Why an op computes in float32 although the rest of a model is in 16 bits.
// What its schema demands is in OpInfo::float16_since.
enum class Float32Need : uint8_t {
  kNone,         // as good in 16 bits, but for rounding
  kStatistics,   // softmax, norms: sums of exponentials and squares
  kReduction,    // adds or multiplies many elements
  kRunningSum,   // each element carries the error of all before it
  kRange,        // of its results, or of what it is good for: exp, log, sin
  kCoordinates,  // positions, which 11 bits do not tell apart
};
// "", "statistics", "reduction", ...
absl::string_view Name(Float32Need need);

// Which operands and results the gradient needs, as bit masks; bit 31 stands
// for "this and all later ones".
struct SavedForBackward {
  uint32_t operands = 0;
  uint32_t results = 0;
  bool known = false;  // false: assume all operands and results
};

// Floating-point operations of one run of the node, a multiply-add counting as
// two; nullopt where a shape is unknown.
using FlopsRule = std::optional<Dim> (*)(const Graph& graph, const Node& node);

struct OpInfo {
  absl::string_view domain;  // "" is ai.onnx
  absl::string_view name;
  // Result 0 is the same bytes as this operand under another shape; -1: none.
  // Optional is one whose operand may be left out.
  int view_of = -1;
  // Operands whose buffer result 0 may overwrite where this is their last use
  // and the byte sizes agree, as a bit mask. These are the ops that runtimes
  // really compute in place, not all that could be.
  uint32_t in_place = 0;
  // Two runs may differ: never merged, never recomputed.
  bool random = false;
  // Has an effect beside its results (none of ONNX's own ops has).
  bool side_effect = false;
  // A gradient may flow from a result to an operand. False where results are
  // shapes, indices, comparisons or rounded values: their gradient is nowhere
  // other than zero.
  bool differentiable = true;
  // Versions of the domain from which on its schema takes float16 and bfloat16
  // wherever it takes float32; 0: none does.
  int float16_since = 1;
  int bfloat16_since = 13;
  Float32Need needs_float32 = Float32Need::kNone;
  // Operands and results that are float32 whatever the others are, as bit
  // masks: scales of a Resize.
  uint32_t float32_operands = 0;
  uint32_t float32_results = 0;
  // Results that a node may leave out, as a bit mask: a runtime makes those
  // that are listed, read or not.
  uint32_t optional_results = 0;
  RecomputeCost recompute = RecomputeCost::kUnknown;
  FlopsRule flops = nullptr;  // nullptr: unknown
  SavedForBackward saved;
  ShapeRule shape = nullptr;  // nullptr: ONNX's own inference alone
  FlowRule flow = nullptr;    // nullptr: cannot be run in parts
};

// The row, or UnknownOp(). Domains "" and "ai.onnx" are the same.
const OpInfo& FindOpInfo(absl::string_view domain, absl::string_view name);
const OpInfo& UnknownOp();
bool IsKnown(const OpInfo& info);
// True if the op, in this version of its domain, takes the 16-bit type wherever
// it takes float32, but for float32_operands and float32_results.
bool Takes(const OpInfo& info, ElementType half, int version);
// True if a mask of operands or results lists this one. The last bit stands for
// all from there on.
inline bool Lists(uint32_t mask, size_t index) {
  return (mask >> (index < 31 ? index : 31) & 1U) != 0;
}
// All rows, sorted by domain and name.
absl::Span<const OpInfo> AllOpInfo();

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_OP_INFO_H_
