// Which values share a buffer, and when buffers are freed: the runtime's plan,
// made once per session, from use counts.
//
//   view        the bytes of its operand (Reshape): always
//   in place    over an operand that nobody reads later, if the kernel can
//   inherited   the buffer of a dead value of the same element size and shape,
//               the one that died last; it is then not freed in between
//   own         else, and always for outputs of the block
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::analysis {
namespace {

size_t At(int32_t index) { return static_cast<size_t>(index); }

class Planner {
 public:
  Planner(const RuntimeBlock& block, absl::Span<const int32_t> order,
          const RuntimeOptions& options)
      : block_(block), order_(order), options_(options) {}

  BufferPlan Plan() {
    CountUses();
    for (int32_t step : order_) {
      PlaceOutputs(block_.steps[At(step)]);
      Release(block_.steps[At(step)]);
    }
    FindFrees();
    return std::move(plan_);
  }

 private:
  bool IsOwned(int32_t value) const {
    return block_.values[At(value)].producer >= 0;
  }

  void CountUses() {
    const size_t count = block_.values.size();
    plan_.buffer_of.resize(count);
    uses_.assign(count, 0);
    int32_t classes = 0;
    for (size_t i = 0; i < count; ++i) {
      plan_.buffer_of[i] = static_cast<int32_t>(i);
      classes = std::max(classes, block_.values[i].shape_class + 1);
      // What the caller owns is never free; what a step makes counts for the
      // step itself.
      uses_[i] = 1;
    }
    dead_.resize(static_cast<size_t>(classes));
    for (const RuntimeStep& step : block_.steps) {
      for (int32_t value : step.inputs) ++uses_[At(value)];
      for (int32_t value : step.captured) ++uses_[At(value)];
    }
    for (int32_t value : block_.outputs) ++uses_[At(value)];
  }

  void Share(int32_t value, int32_t with) {
    const int32_t buffer = plan_.buffer_of[At(with)];
    plan_.buffer_of[At(value)] = buffer;
    uses_[At(buffer)] += uses_[At(value)];
  }

  void PlaceOutputs(const RuntimeStep& step) {
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const int32_t value = step.outputs[i];
      const bool first = value == step.first_output;
      if (block_.values[At(value)].is_output &&
          options_.target == RuntimeTarget::kOnnxRuntime) {
        // A loop's body that hands a parameter through does not copy it.
        if (first && step.passes_through && !IsOwned(step.inputs[0])) {
          Share(value, step.inputs[0]);
        }
        continue;
      }
      const int32_t operand = first ? Reusable(step) : -1;
      if (operand >= 0) {
        Share(value, operand);
        continue;
      }
      const RuntimeValue& v = block_.values[At(value)];
      if (!options_.reuse || v.is_scalar || v.shape_class < 0) continue;
      std::vector<int32_t>& dead = dead_[At(v.shape_class)];
      if (dead.empty()) continue;
      const int32_t buffer = dead.back();
      dead.pop_back();
      Share(value, buffer);
    }
  }

  // The operand whose buffer the first output takes; -1: none.
  int32_t Reusable(const RuntimeStep& step) const {
    if (step.alias_of >= 0) return step.alias_of;
    for (int32_t operand : step.in_place) {
      const RuntimeValue& from = block_.values[At(operand)];
      const RuntimeValue& to = block_.values[At(step.first_output)];
      if (uses_[At(plan_.buffer_of[At(operand)])] == 1 &&
          from.shape_class >= 0 && from.shape_class == to.shape_class) {
        return operand;
      }
    }
    return -1;
  }

  void Release(const RuntimeStep& step) {
    for (int32_t value : step.inputs) ReleaseOne(value);
    for (int32_t value : step.captured) ReleaseOne(value);
    for (int32_t value : step.outputs) ReleaseOne(value);
  }

  void ReleaseOne(int32_t value) {
    const int32_t buffer = plan_.buffer_of[At(value)];
    if (--uses_[At(buffer)] != 0) return;
    const RuntimeValue& v = block_.values[At(buffer)];
    if (v.shape_class >= 0) dead_[At(v.shape_class)].push_back(buffer);
  }

  // A buffer goes with the last step that reads a value in it; one that nobody
  // reads stays to the end.
  void FindFrees() {
    std::vector<int32_t> last(block_.values.size(), -1);
    const bool ideal = options_.target == RuntimeTarget::kIdeal;
    for (int32_t step : order_) {
      const RuntimeStep& s = block_.steps[At(step)];
      if (ideal) {
        for (int32_t v : s.outputs) last[At(plan_.buffer_of[At(v)])] = step;
      }
      for (int32_t v : s.inputs) last[At(plan_.buffer_of[At(v)])] = step;
      for (int32_t v : s.captured) last[At(plan_.buffer_of[At(v)])] = step;
    }
    for (int32_t v : block_.outputs) last[At(plan_.buffer_of[At(v)])] = -1;
    plan_.frees.resize(block_.steps.size());
    for (size_t i = 0; i < last.size(); ++i) {
      const auto value = static_cast<int32_t>(i);
      if (last[i] < 0 || !OwnsBuffer(block_, plan_, value)) continue;
      plan_.frees[At(last[i])].push_back(value);
    }
  }

  const RuntimeBlock& block_;
  absl::Span<const int32_t> order_;
  const RuntimeOptions& options_;
  std::vector<int32_t> uses_;  // by value; of buffers, of all in it
  std::vector<std::vector<int32_t>>
      dead_;  // by class, the last one at the back
  BufferPlan plan_;
};

}  // namespace

BufferPlan PlanBuffers(const RuntimeBlock& block,
                       absl::Span<const int32_t> order,
                       const RuntimeOptions& options) {
  return Planner(block, order, options).Plan();
}

bool OwnsBuffer(const RuntimeBlock& block, const BufferPlan& plan,
                int32_t value) {
  return block.values[At(value)].producer >= 0 &&
         plan.buffer_of[At(value)] == value;
}

BareProfile ProfileBare(const RuntimeBlock& block,
                        absl::Span<const int32_t> order,
                        const BufferPlan& plan) {
  BareProfile profile;
  profile.during_bytes.reserve(order.size());
  profile.after_bytes.reserve(order.size());
  int64_t live = 0;
  for (int32_t index : order) {
    const RuntimeStep& step = block.steps[At(index)];
    int64_t outputs = 0;
    for (int32_t value : step.outputs) {
      if (!OwnsBuffer(block, plan, value)) continue;
      outputs = SaturatingAdd(outputs, block.values[At(value)].size_bytes);
    }
    // The peak of nested blocks includes what becomes the step's outputs.
    const int64_t during =
        std::max(step.nested_peak_bytes,
                 SaturatingAdd(outputs, SaturatingAdd(step.scratch_total_bytes,
                                                      step.malloc_bytes)));
    profile.during_bytes.push_back(SaturatingAdd(live, during));
    live = SaturatingAdd(live, outputs);
    for (int32_t buffer : plan.frees[At(index)]) {
      live -= block.values[At(buffer)].size_bytes;
    }
    profile.after_bytes.push_back(live);
  }
  return profile;
}

int64_t BarePeak(const RuntimeBlock& block, absl::Span<const int32_t> order,
                 const BufferPlan& plan, int32_t* peak_at) {
  const std::vector<int64_t> bytes =
      ProfileBare(block, order, plan).during_bytes;
  const auto peak = std::max_element(bytes.begin(), bytes.end());
  const bool any = peak != bytes.end() && *peak > 0;
  if (peak_at != nullptr) {
    *peak_at = any ? static_cast<int32_t>(peak - bytes.begin()) : -1;
  }
  return any ? *peak : 0;
}

}  // namespace onnx_memopt::analysis
