// break-reuse: keeps ONNX Runtime from holding a dead buffer for a later tensor
// of the same shape.
//
//     a [64, n] dies, .......... b [64, n]     one buffer, held in between
//                 big [96, n]                  peak a + big
//
//     a [64, n] dies                           two buffers
//                 big [96, n]                  peak max(a, big)
//                            b [1, 64, n]
//
// Why it saves memory: when ONNX Runtime plans, a new tensor takes over the
// buffer of a dead one of the same element size and shape, which is then not
// freed in between. Networks repeat blocks, so large tensors of each block hold
// their buffers through all others. Tensors of another rank do not match: an
// Unsqueeze in front of the nodes that make them, and a Squeeze behind, are
// views. Cost: two views for each region. Refuses: regions of other nodes than
// elementwise ones, matrix products and softmax along the last axis; outputs;
// models before opset 13; what does not lower a predicted peak. Must not run
// after it: passes that fuse nodes.
//
// Options: max-rank (default 16), force (default 0).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/bare_run.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/lift_rank.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::Graph;
using ir::NodeId;
using ir::ValueId;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// A buffer that waits for its next tensor.
struct Held {
  ValueId donor;  // the last that was in it
  ValueId heir;
  int64_t size_bytes = 0;
};

class BreakReuse final : public pass::Pass {
 public:
  BreakReuse(int64_t max_rank, int64_t force)
      : max_rank_(max_rank), force_(force) {}

  absl::string_view name() const override { return "break-reuse"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    if (const absl::Status status = rewrite::CheckCanBuild(graph);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    if (force_ > 0) return Force(graph, context);
    if (const absl::Status status =
            rewrite::CheckCanSearch(graph, context.analyses(), kMaxNodes);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    Graph changed = graph.Clone();
    ASSIGN_OR_RETURN(const int regions, BreakAll(changed));
    if (regions == 0) return false;
    ASSIGN_OR_RETURN(const rewrite::RewritePeaks before,
                     rewrite::PeaksForRewrite(graph));
    ASSIGN_OR_RETURN(const rewrite::RewritePeaks after,
                     rewrite::PeaksForRewrite(changed));
    if (!rewrite::Pays(before, after)) return false;
    graph = std::move(changed);
    context.Remark(absl::StrCat(regions, regions == 1 ? " region" : " regions",
                                " with shapes of their own, ",
                                DescribeGain(before, after)));
    return true;
  }

 private:
  static constexpr size_t kMaxNodes = 10'000;
  static constexpr int kMaxAttempts = 400;

  // Regions that may not pay: to test that any may be lifted.
  bool Force(Graph& graph, pass::PassContext& context) const {
    const std::vector<NodeId> nodes = graph.block(ir::kMainBlock).nodes;
    int64_t regions = 0;
    for (NodeId id : nodes) {
      if (regions == force_) break;
      const auto& results = graph.node(id).results;
      if (results.empty() || results[0] == ir::kNoValue) continue;
      const ValueId result = results[0];
      regions += Lift(graph, result) ? 1 : 0;
    }
    if (regions == 0) return false;
    context.Remark(absl::StrCat(regions, " regions, forced"));
    return true;
  }

  absl::StatusOr<int> BreakAll(Graph& graph) const {
    ASSIGN_OR_RETURN(rewrite::BareRun now, rewrite::RunBare(graph));
    llvm::DenseSet<NodeId> refused;
    int regions = 0;
    int attempts = 0;
    while (true) {
      bool broke = false;
      for (const Held& held : FindHeld(now)) {
        // To move the donor's tensors first lets a chain of blocks be broken
        // from its beginning.
        for (ValueId value : {held.donor, held.heir}) {
          const NodeId producer = graph.value(value).producer;
          if (refused.contains(producer)) continue;
          if (++attempts > kMaxAttempts) return regions;
          Graph changed = graph.Clone();
          const bool lifted = Lift(changed, value);
          rewrite::BareRun then;
          if (lifted) {
            ASSIGN_OR_RETURN(then, rewrite::RunBare(changed));
          }
          if (!lifted || then.peak_bytes > now.peak_bytes ||
              then.sum_bytes >= now.sum_bytes) {
            refused.insert(producer);
            continue;
          }
          graph = std::move(changed);
          now = std::move(then);
          ++regions;
          broke = true;
          break;
        }
        if (broke) break;
      }
      if (!broke) return regions;
    }
  }

  // Gives the region around a value a shape that no other tensor has.
  bool Lift(Graph& graph, ValueId value) const {
    const std::vector<NodeId> region = rewrite::LiftableRegion(graph, value);
    if (region.empty() || graph.node(region.front()).opset < 13) return false;
    // Compared as numbers: equal names are equal numbers.
    const ir::Bindings sizes = analysis::AssumedBindings(graph);
    const auto key = [&](const ir::Shape& shape) {
      std::string text;
      for (const std::optional<ir::Dim>& dim : shape) {
        const auto size = dim ? dim->Evaluate(sizes) : std::nullopt;
        absl::StrAppend(&text, size ? absl::StrCat(*size) : "?", ",");
      }
      return text;
    };
    absl::flat_hash_set<std::string> taken;
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const ir::Type& type =
          graph.value(ValueId(static_cast<uint32_t>(i))).type;
      if (type.is_tensor() && type.shape) taken.insert(key(*type.shape));
    }
    const size_t rank = graph.value(value).type.shape->size();
    const auto fewest =
        static_cast<size_t>(rewrite::FewestAxesBehind(graph, region));
    const int64_t room = max_rank_ - static_cast<int64_t>(rank);
    // All in front of one axis, or some in front of the first.
    for (int64_t count = 1; count <= room; ++count) {
      for (size_t behind = rank; behind >= fewest && behind > 0; --behind) {
        for (int64_t inner = behind == rank ? count : 1; inner <= count;
             ++inner) {
          rewrite::Lift lift(rank + 1);
          lift[rank] = static_cast<int>(count - inner);
          lift[behind] += static_cast<int>(inner);
          const bool is_free =
              std::none_of(region.begin(), region.end(), [&](NodeId id) {
                const ir::Shape& shape =
                    *graph.value(graph.node(id).results[0]).type.shape;
                return taken.contains(key(rewrite::Lifted(shape, lift)));
              });
          if (!is_free) continue;
          rewrite::LiftRegion(graph, region, lift);
          return true;
        }
      }
    }
    return false;
  }

  // Those at the peak, the largest first.
  static std::vector<Held> FindHeld(const rewrite::BareRun& run) {
    const auto& [block, order, plan, peak_bytes, sum_bytes, peak_at] = run;
    std::vector<Held> found;
    // By buffer: when the last of its values was read, and which was made last.
    std::vector<int32_t> last_read(block.values.size(), -1);
    std::vector<int32_t> last_made(block.values.size(), -1);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto now = static_cast<int32_t>(i);
      const analysis::RuntimeStep& step = block.steps[At(order[i])];
      for (int32_t value : step.outputs) {
        const int32_t buffer = plan.buffer_of[At(value)];
        int32_t& made = last_made[At(buffer)];
        if (made >= 0 && last_read[At(buffer)] < peak_at && peak_at < now) {
          found.push_back({.donor = block.values[At(made)].id,
                           .heir = block.values[At(value)].id,
                           .size_bytes = block.values[At(buffer)].size_bytes});
        }
        made = value;
        last_read[At(buffer)] = now;
      }
      for (int32_t value : step.inputs) {
        last_read[At(plan.buffer_of[At(value)])] = now;
      }
      for (int32_t value : step.captured) {
        last_read[At(plan.buffer_of[At(value)])] = now;
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Held& a, const Held& b) {
                       return a.size_bytes > b.size_bytes;
                     });
    return found;
  }

  int64_t max_rank_;
  int64_t force_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeBreakReuse(
    pass::PassOptions& options) {
  ASSIGN_OR_RETURN(
      const int64_t max_rank,
      options.Int("max-rank", 16, "dimensions that a tensor may get at most"));
  ASSIGN_OR_RETURN(const int64_t force,
                   options.Int("force", 0,
                               "give so many regions another shape, whether "
                               "it pays or not"));
  return std::make_unique<BreakReuse>(max_rank, force);
}

}  // namespace onnx_memopt::passes
