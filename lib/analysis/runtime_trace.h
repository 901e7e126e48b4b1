// The allocations and frees of one run, bodies of loops included, in order of
// time. Private to lib/analysis.
//
//   FramePlan plan = PlanFrame(block, options);
//   std::vector<MemoryEvent> first = TraceRun(block, plan, false);
//   std::vector<MemoryEvent> later = TraceRun(block, plan, options.pattern);
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_TRACE_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_TRACE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/analysis/runtime_model.h"

namespace onnx_memopt::analysis {

// Where the memory pattern puts each tensor of a block.
struct PatternPlan {
  int64_t block_bytes = 0;
  std::vector<int64_t> offsets;  // by value; -1: not in the block
};

// lib/analysis/runtime_pattern.cc: what the runtime's planner makes of the
// allocations and frees of one run: best fit among gaps, without a look ahead.
PatternPlan PlanPattern(const RuntimeBlock& block,
                        absl::Span<const int32_t> order,
                        const BufferPlan& buffers);

// A block with all that is decided once per session, and its bodies.
struct FramePlan {
  std::vector<int32_t> order;
  BufferPlan buffers;
  bool use_pattern = false;
  PatternPlan pattern;
  // By step, then by body.
  std::vector<std::vector<FramePlan>> bodies;
};

FramePlan PlanFrame(const RuntimeBlock& block, const RuntimeOptions& options,
                    absl::Span<const int32_t> rank = {});

// `warm`: the block's pattern is known from an earlier run.
std::vector<MemoryEvent> TraceRun(const RuntimeBlock& block,
                                  const FramePlan& plan, bool warm);
// Of one step alone: what its bodies and its outputs take.
std::vector<MemoryEvent> TraceStep(const RuntimeBlock& block, size_t step,
                                   const std::vector<FramePlan>& bodies);

// The highest sum of what is allocated at one time.
int64_t LivePeak(absl::Span<const MemoryEvent> events);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_TRACE_H_
