// Puts a float32 graph into 16 bits: plan which nodes compute in which width,
// then convert.
//
//   PlanHalf decides, node by node:      ConvertToHalf carries it out:
//
//     x -> MatMul -> Softmax -> MatMul     x -> Cast -> MatMul -> Cast ->
//          half      single     half            Softmax -> Cast -> MatMul
//
// A value has one native width, that in which it is made. Where a reader wants
// the other one, a Cast is put beside it, once for all such readers; weights
// have no Cast but are there in the width that is wanted. A cheap node between
// nodes that compute in float32 does so too, so that no pair of Casts stands
// around it.
//
//   ASSIGN_OR_RETURN(HalfPlan plan, PlanHalf(graph, options));
//   ASSIGN_OR_RETURN(HalfCounts counts, ConvertToHalf(plan, &graph));
#ifndef ONNX_MEMOPT_REWRITE_HALF_PRECISION_H_
#define ONNX_MEMOPT_REWRITE_HALF_PRECISION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/weight_reader.h"

namespace onnx_memopt::rewrite {

// What happens to a weight with numbers that the 16-bit type cannot hold: a
// finite one becomes infinity, or all are below the smallest normal one.
enum class OutOfRange : uint8_t {
  kKeep,   // it stays float32, and its readers compute in float32
  kClamp,  // what is too large becomes the largest number
  kRound,  // what is too large becomes infinity
};

struct HalfOptions {
  ir::ElementType type = ir::ElementType::kFloat16;  // or kBfloat16
  // Inputs and outputs of the model stay float32.
  bool keep_interface = true;
  // Ops with a reason in OpInfo::needs_float32 compute in 16 bits all the same.
  bool sensitive_in_half = false;
  OutOfRange out_of_range = OutOfRange::kKeep;
};

// What the elements of a weight do in 16 bits.
struct HalfRange {
  int64_t elements = 0;
  int64_t too_large = 0;   // finite, and infinite in 16 bits
  int64_t vanishing = 0;   // not zero, and zero in 16 bits
  bool all_small = false;  // none is zero or normal in 16 bits, some are not 0
};

// Reads the elements of a float32 weight, or of what a Constant makes.
absl::Status MeasureRange(const ir::Graph& graph, ir::ValueId id,
                          ir::ElementType type, ir::WeightReader* reader,
                          HalfRange* range);

enum class Width : uint8_t { kSingle, kHalf };

struct HalfPlan {
  HalfOptions options;
  // By NodeId: its float32 operands and results are of this width, but for
  // what `operand_is_single` and `result_is_single` say.
  std::vector<Width> nodes;
  // By NodeId, of nodes in float32: why.
  std::vector<std::string> reasons;
  // By ValueId: the width in which it is made. Constants have both.
  std::vector<Width> native;
  // By BlockId, of If, Loop and Scan: the widths of params and results.
  std::vector<std::vector<Width>> params;
  std::vector<std::vector<Width>> results;
  // By ValueId, of float32 weights that are read: what they lose.
  std::map<ir::ValueId, HalfRange> ranges;
  // Of these the readers compute in float32.
  std::vector<bool> kept;  // by ValueId
  // Casts to float32 that cast to 16 bits instead.
  std::vector<bool> recast;  // by NodeId
};

// kInvalidArgument where a weight cannot be read, or there is nothing in
// float32 and something in 16 bits already; kFailedPrecondition where the graph
// cannot be converted as a whole.
absl::StatusOr<HalfPlan> PlanHalf(const ir::Graph& graph,
                                  const HalfOptions& options);

struct HalfCounts {
  int64_t half_nodes = 0;
  int64_t single_nodes = 0;
  int64_t casts = 0;    // put in
  int64_t removed = 0;  // Casts that were there and are not needed any more
  int64_t weights = 0;  // in 16 bits now
  int64_t saved_bytes = 0;
};

absl::StatusOr<HalfCounts> ConvertToHalf(const HalfPlan& plan,
                                         ir::Graph* graph);

// Of a value that is a weight, or made by a Constant: its tensor in float32, if
// it is one.
bool IsFloatTensor(const ir::Value& value);
bool IsFloatConstant(const ir::Graph& graph, ir::ValueId value);
// The width that operand `index` of the node is read in; false: any will do.
bool WantedWidth(const HalfPlan& plan, const ir::Graph& graph, ir::NodeId node,
                 size_t index, Width* width);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_HALF_PRECISION_H_
