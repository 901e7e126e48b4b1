// Helpers of the files that build a RuntimeBlock. Private to lib/analysis.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_BLOCK_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_BLOCK_H_

#include <cstdint>
#include <optional>

#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/load_growth.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

using ConcreteShape = llvm::SmallVector<int64_t, 5>;

// The graph with a number for every dimension.
struct RuntimeContext {
  const ir::Graph& graph;
  AnalysisManager& analyses;
  const Sizes& sizes;
  ir::Bindings bindings;
  RuntimeOptions options;
  const LoadGrowth* folding = nullptr;  // if options.folding

  // nullopt: not a tensor, or a dimension is unknown.
  std::optional<ConcreteShape> ShapeOf(ir::ValueId value) const;
  std::optional<ConcreteShape> OperandShape(const ir::Node& node,
                                            size_t operand) const;
  // True for operands that are there before the run: weights, and what is
  // computed from them when the model is loaded.
  bool IsConstant(ir::ValueId value) const;
  // True for nodes that run when the model is loaded.
  bool IsFolded(const ir::Node& node) const;
};

// lib/analysis/ort_scratch.cc: fills scratch_bytes and malloc_bytes.
void AddScratch(const RuntimeContext& context, RuntimeStep* step);

// lib/analysis/ort_mapped_weights.cc: bytes of mapped weights that the kernel
// of `node` reads where they are, since it did not pack them beforehand.
int64_t ReadsInPlace(const RuntimeContext& context, const ir::Node& node,
                     size_t operand);

// lib/analysis/runtime_bodies.cc: fills `bodies` and nested_peak_bytes of the
// step of an If, Loop or Scan.
absl::Status AddBodies(const RuntimeContext& context, RuntimeBlock* block,
                       size_t step);

absl::StatusOr<RuntimeBlock> BuildRuntimeBlockIn(const RuntimeContext& context,
                                                 ir::BlockId block);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_BLOCK_H_
