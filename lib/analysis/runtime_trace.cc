// Replays a plan as the runtime's executor does: outputs, then scratch, then
// frees; bodies of If, Loop and Scan at their node, each with a frame of its
// own.
//
// Scan has its stacked results before the first iteration, and the body writes
// into them; Loop keeps what each iteration stacks and copies all of it in the
// end. Both hold two versions of what they carry.
#include "analysis/runtime_trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::analysis {
namespace {

using Kind = MemoryEvent::Kind;

// More iterations do not raise a peak but by what they stack, which is counted
// in full. Of loops in loops fewer are traced, so that the trace stays short.
constexpr int64_t kMaxTracedTrips[] = {32, 3, 1};
constexpr int32_t kNone = -1;

size_t At(int32_t index) { return static_cast<size_t>(index); }

class Tracer {
 public:
  // `warm`: in a later run, when all blocks have run before.
  explicit Tracer(bool warm) : all_warm_(warm) {}

  std::vector<MemoryEvent> Take() { return std::move(events_); }
  void Free(int32_t id) {
    if (id == kNone) return;
    events_.push_back({.kind = Kind::kFree, .id = id, .position = position_});
  }

  // Runs a block. `given`: its outputs are written to buffers of the caller.
  // Returns the allocations of its outputs, kNone for those it did not make.
  std::vector<int32_t> Run(const RuntimeBlock& block, const FramePlan& plan,
                           bool warm, bool given, bool is_main) {
    Frame frame{.block = block,
                .plan = plan,
                .given = given,
                .allocation = std::vector<int32_t>(block.values.size(), kNone)};
    if (warm && plan.use_pattern && plan.pattern.block_bytes > 0) {
      frame.pattern_block = Add(Kind::kAllocateBlock, plan.pattern.block_bytes);
    }
    for (size_t i = 0; i < plan.order.size(); ++i) {
      if (is_main) position_ = static_cast<int32_t>(i);
      const size_t step = At(plan.order[i]);
      RunStep(&frame, step, plan.bodies[step]);
      for (int32_t value : plan.buffers.frees[step]) FreeValue(&frame, value);
    }
    std::vector<int32_t> outputs;
    for (int32_t value : block.outputs) {
      int32_t& allocation = frame.allocation[At(value)];
      outputs.push_back(allocation);
      allocation = kNone;  // an output that is listed twice is made once
    }
    for (size_t v = 0; v < block.values.size(); ++v) {
      FreeValue(&frame, static_cast<int32_t>(v));
    }
    Free(frame.pattern_block);
    return outputs;
  }

  void RunStepAlone(const RuntimeBlock& block, size_t step,
                    const std::vector<FramePlan>& bodies) {
    FramePlan plan;
    plan.buffers.buffer_of.resize(block.values.size());
    for (size_t v = 0; v < block.values.size(); ++v) {
      plan.buffers.buffer_of[v] = static_cast<int32_t>(v);
    }
    Frame frame{.block = block,
                .plan = plan,
                .given = false,
                .allocation = std::vector<int32_t>(block.values.size(), kNone)};
    RunStep(&frame, step, bodies);
  }

 private:
  struct Frame {
    const RuntimeBlock& block;
    const FramePlan& plan;
    bool given = false;
    std::vector<int32_t> allocation;  // by value
    int32_t pattern_block = kNone;
  };

  int32_t Add(Kind kind, int64_t size_bytes) {
    const int32_t id = next_id_++;
    events_.push_back({.kind = kind,
                       .id = id,
                       .size_bytes = size_bytes,
                       .position = position_});
    return id;
  }

  int32_t AddPartlyTouched(int64_t touched_bytes, int64_t untouched_bytes) {
    const int32_t id = Add(Kind::kAllocateBlock,
                           SaturatingAdd(touched_bytes, untouched_bytes));
    events_.push_back({.kind = Kind::kTouch,
                       .id = id,
                       .size_bytes = touched_bytes,
                       .position = position_});
    return id;
  }

  void FreeValue(Frame* frame, int32_t value) {
    Free(frame->allocation[At(value)]);
    frame->allocation[At(value)] = kNone;
  }

  void AllocateOutput(Frame* frame, int32_t value) {
    const RuntimeValue& v = frame->block.values[At(value)];
    if (!OwnsBuffer(frame->block, frame->plan.buffers, value) ||
        v.size_bytes == 0 || (v.is_output && frame->given && !IsMadeLate(v))) {
      return;
    }
    if (frame->pattern_block != kNone) {
      const int64_t offset = frame->plan.pattern.offsets[At(value)];
      if (offset >= 0) {
        events_.push_back({.kind = Kind::kTouch,
                           .id = frame->pattern_block,
                           .size_bytes = v.size_bytes,
                           .offset_bytes = offset,
                           .position = position_});
        return;
      }
    }
    frame->allocation[At(value)] = Add(Kind::kAllocate, v.size_bytes);
  }

  // An output of a body has its buffer before the body runs, unless the runtime
  // does not know its shape by then.
  static bool IsMadeLate(const RuntimeValue& v) {
    return v.shape_class < 0 && !v.is_scalar;
  }

  void AllocateOutputs(Frame* frame, const RuntimeStep& step) {
    for (int32_t value : step.outputs) AllocateOutput(frame, value);
  }

  void RunStep(Frame* frame, size_t index,
               const std::vector<FramePlan>& bodies) {
    const RuntimeStep& step = frame->block.steps[index];
    if (step.mapped_bytes > 0) Add(Kind::kMap, step.mapped_bytes);
    if (step.bodies != nullptr) {
      switch (step.bodies->kind) {
        case RuntimeBodies::Kind::kIf:
          return RunIf(frame, step, bodies);
        case RuntimeBodies::Kind::kLoop:
          return RunLoop(frame, step, bodies);
        case RuntimeBodies::Kind::kScan:
          return RunScan(frame, step, bodies);
      }
    }
    if (!step.scratch_first) AllocateOutputs(frame, step);
    std::vector<int32_t> scratch;
    for (size_t i = 0; i < step.scratch_bytes.size(); ++i) {
      const int64_t bytes = step.scratch_bytes[i];
      if (step.untouched_bytes > 0 && i + 1 == step.scratch_bytes.size()) {
        scratch.push_back(AddPartlyTouched(bytes, step.untouched_bytes));
      } else if (bytes > 0) {
        scratch.push_back(Add(Kind::kAllocate, bytes));
      }
    }
    if (step.malloc_bytes > 0) {
      scratch.push_back(Add(Kind::kAllocateMalloc, step.malloc_bytes));
    }
    if (step.scratch_first) AllocateOutputs(frame, step);
    for (size_t i = scratch.size(); i > 0; --i) Free(scratch[i - 1]);
  }

  // Of both branches the one that takes more.
  void RunIf(Frame* frame, const RuntimeStep& step,
             const std::vector<FramePlan>& bodies) {
    size_t worst = 0;
    int64_t worst_bytes = -1;
    for (size_t i = 0; i < bodies.size(); ++i) {
      const int64_t bytes = BarePeak(step.bodies->blocks[i], bodies[i].order,
                                     bodies[i].buffers, nullptr);
      if (bytes > worst_bytes) {
        worst = i;
        worst_bytes = bytes;
      }
    }
    if (bodies.empty()) return;
    const RuntimeBlock& block = step.bodies->blocks[worst];
    // Which outputs the body makes itself; all of them have a result here, or
    // it is not told which is which.
    std::vector<bool> late(step.outputs.size());
    for (size_t i = 0; i < late.size(); ++i) {
      late[i] = step.outputs.size() == block.outputs.size() &&
                IsMadeLate(block.values[At(block.outputs[i])]);
      if (!late[i]) AllocateOutput(frame, step.outputs[i]);
    }
    const std::vector<int32_t> made =
        Run(block, bodies[worst], IsWarm(bodies[worst]), /*given=*/true,
            /*is_main=*/false);
    for (size_t i = 0; i < late.size(); ++i) {
      if (!late[i]) continue;
      frame->allocation[At(step.outputs[i])] = made[i];
    }
  }

  void RunLoop(Frame* frame, const RuntimeStep& step,
               const std::vector<FramePlan>& bodies) {
    const RuntimeBodies& loop = *step.bodies;
    const int64_t trips = TracedTrips(loop.trip_count);
    std::vector<int32_t> fed;  // what the iteration gets from the last one
    std::vector<int32_t> carried;
    std::vector<int32_t> kept;
    const size_t num_carried = At(loop.num_carried) + 1;  // and the condition
    ++depth_;
    for (int64_t trip = 0; trip < trips; ++trip) {
      for (int32_t id : fed) Free(id);
      fed = std::move(carried);
      carried.clear();
      const std::vector<int32_t> outputs =
          Run(loop.blocks[0], bodies[0], IsWarm(bodies[0]), /*given=*/false,
              /*is_main=*/false);
      for (size_t i = 0; i < outputs.size(); ++i) {
        (i < num_carried ? carried : kept).push_back(outputs[i]);
      }
    }
    --depth_;
    // What the iterations that were left out stack.
    for (size_t i = num_carried; i < loop.blocks[0].outputs.size(); ++i) {
      const auto value = At(loop.blocks[0].outputs[i]);
      const auto bytes = CheckedMul(loop.blocks[0].values[value].size_bytes,
                                    loop.trip_count - trips);
      if (bytes && *bytes > 0) kept.push_back(Add(Kind::kAllocate, *bytes));
    }
    for (int32_t value : step.outputs) AllocateOutput(frame, value);
    for (int32_t id : fed) Free(id);
    for (int32_t id : carried) Free(id);
    for (int32_t id : kept) Free(id);
  }

  void RunScan(Frame* frame, const RuntimeStep& step,
               const std::vector<FramePlan>& bodies) {
    const RuntimeBodies& scan = *step.bodies;
    std::vector<int32_t> temporary;
    for (int64_t bytes : scan.input_copies_bytes) {
      if (bytes > 0) temporary.push_back(Add(Kind::kAllocate, bytes));
    }
    std::vector<int32_t> late;
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const size_t stacked = i - At(scan.num_carried);
      if (i >= At(scan.num_carried) && stacked < scan.output_is_copied.size() &&
          scan.output_is_copied[stacked]) {
        late.push_back(step.outputs[i]);
        temporary.push_back(
            Add(Kind::kAllocate,
                frame->block.values[At(step.outputs[i])].size_bytes));
      } else {
        AllocateOutput(frame, step.outputs[i]);
      }
    }
    const RuntimeBlock& body = scan.blocks[0];
    // Two versions of what is carried; the last one is the result itself.
    for (size_t i = 0; i < At(scan.num_carried) && i < body.outputs.size();
         ++i) {
      const int64_t bytes = body.values[At(body.outputs[i])].size_bytes;
      for (int64_t n = 1; n < std::min<int64_t>(scan.trip_count, 3); ++n) {
        if (bytes > 0) temporary.push_back(Add(Kind::kAllocate, bytes));
      }
    }
    const int64_t trips = TracedTrips(scan.trip_count);
    ++depth_;
    for (int64_t trip = 0; trip < trips; ++trip) {
      Run(body, bodies[0], IsWarm(bodies[0]), /*given=*/true,
          /*is_main=*/false);
    }
    --depth_;
    for (int32_t value : late) AllocateOutput(frame, value);
    for (int32_t id : temporary) Free(id);
  }

  int64_t TracedTrips(int64_t trip_count) const {
    return std::min(trip_count, kMaxTracedTrips[std::min<size_t>(depth_, 2)]);
  }

  // A body's pattern is known after its first iteration.
  bool IsWarm(const FramePlan& plan) {
    const bool seen =
        std::find(seen_.begin(), seen_.end(), &plan) != seen_.end();
    if (!seen) seen_.push_back(&plan);
    return seen || all_warm_;
  }

  std::vector<MemoryEvent> events_;
  bool all_warm_ = false;
  std::vector<const FramePlan*> seen_;
  int32_t next_id_ = 0;
  int32_t position_ = -1;
  size_t depth_ = 0;  // of loops
};

}  // namespace

FramePlan PlanFrame(const RuntimeBlock& block, const RuntimeOptions& options,
                    absl::Span<const int32_t> rank) {
  FramePlan plan;
  plan.order = RunOrder(block, options.execution_order, rank);
  plan.buffers = PlanBuffers(block, plan.order, options);
  plan.use_pattern = options.pattern && block.keeps_pattern;
  if (plan.use_pattern) {
    plan.pattern = PlanPattern(block, plan.order, plan.buffers);
  }
  plan.bodies.resize(block.steps.size());
  for (size_t i = 0; i < block.steps.size(); ++i) {
    if (block.steps[i].bodies == nullptr) continue;
    for (const RuntimeBlock& body : block.steps[i].bodies->blocks) {
      plan.bodies[i].push_back(PlanFrame(body, options));
    }
  }
  return plan;
}

std::vector<MemoryEvent> TraceRun(const RuntimeBlock& block,
                                  const FramePlan& plan, bool warm) {
  Tracer tracer(warm);
  // What the caller gets lives until the next run.
  for (int32_t id : tracer.Run(block, plan, warm, /*given=*/false,
                               /*is_main=*/true)) {
    tracer.Free(id);
  }
  return tracer.Take();
}

std::vector<MemoryEvent> TraceStep(const RuntimeBlock& block, size_t step,
                                   const std::vector<FramePlan>& bodies) {
  Tracer tracer(/*warm=*/false);
  tracer.RunStepAlone(block, step, bodies);
  return tracer.Take();
}

int64_t LivePeak(absl::Span<const MemoryEvent> events) {
  std::vector<int64_t> sizes;
  int64_t live = 0;
  int64_t peak = 0;
  for (const MemoryEvent& event : events) {
    switch (event.kind) {
      case Kind::kAllocate:
      case Kind::kAllocateBlock:
      case Kind::kAllocateMalloc:
        sizes.resize(std::max(sizes.size(), At(event.id) + 1));
        sizes[At(event.id)] = event.size_bytes;
        live = SaturatingAdd(live, event.size_bytes);
        peak = std::max(peak, live);
        break;
      case Kind::kFree:
        live -= sizes[At(event.id)];
        break;
      case Kind::kMap:
      case Kind::kTouch:
        break;
    }
  }
  return peak;
}

}  // namespace onnx_memopt::analysis
