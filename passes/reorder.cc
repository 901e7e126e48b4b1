// reorder: puts the nodes of the main graph and of each subgraph in an order in
// which fewer bytes live at one moment.
//
//     breadth first            depth first
//     a b c d  A B C D  join   a A b B c C d D  join
//     all of a..d live at      one of a..d lives at
//     once                     a time
//
// Why it saves memory: between two valid orders the peak may differ several
// times; exporters write the order in which the program ran. Cost: none in the
// run. Refuses: an order is taken only if the live peak falls; graphs with
// tensors of unknown size; a call of a model-local function moves as a whole.
// What must not run after it: a pass that appends or moves nodes without
// looking at the peak. The search is plan::MinimizePeak; the result is replayed
// by plan::EvaluateSchedule and by MemoryProfile, which share no code with it.
//
// Options: exact-nodes (default 24), beam (default 64), max-states.

#include <algorithm>
#include <cassert>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/schedule_problem.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using analysis::MemoryProfile;
using ir::BlockId;
using ir::Graph;
using ir::NodeId;

class Reorder final : public pass::Pass {
 public:
  explicit Reorder(plan::ScheduleOptions options)
      : options_(std::move(options)) {}

  absl::string_view name() const override { return "reorder"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    ASSIGN_OR_RETURN(const analysis::Timeline* timeline,
                     context.analyses().Get<analysis::Timeline>());
    ASSIGN_OR_RETURN(const MemoryProfile* profile,
                     context.analyses().Get<MemoryProfile>());
    if (!profile->complete()) {
      context.Remark(
          "left as it is: sizes of some tensors are unknown, so that a peak "
          "cannot be compared");
      return false;
    }
    // The innermost graphs first: their peaks are part of the outer ones'.
    std::vector<BlockId> blocks(timeline->blocks().rbegin(),
                                timeline->blocks().rend());
    bool changed = false;
    for (BlockId block : blocks) {
      if (graph.block(block).nodes.size() < 2) continue;
      ASSIGN_OR_RETURN(const bool moved, ReorderBlock(graph, block, context));
      changed = changed || moved;
    }
    return changed;
  }

 private:
  absl::StatusOr<bool> ReorderBlock(Graph& graph, BlockId block,
                                    pass::PassContext& context) const {
    ASSIGN_OR_RETURN(const analysis::ScheduleProblemOfBlock problem,
                     BuildScheduleProblem(graph, context.analyses(), block));
    ASSIGN_OR_RETURN(const plan::ScheduleResult result,
                     plan::MinimizePeak(problem.problem, options_));
    ASSIGN_OR_RETURN(const plan::ScheduleProfile replay,
                     plan::EvaluateSchedule(problem.problem, result.order));
    if (replay.peak_bytes != result.peak_bytes) {
      return absl::InternalError(
          absl::StrCat("the planned peak is ", result.peak_bytes,
                       " bytes, its replay has ", replay.peak_bytes));
    }
    std::vector<NodeId> order;
    order.reserve(result.order.size());
    for (int32_t i : result.order) {
      order.push_back(problem.nodes[static_cast<size_t>(i)]);
    }
    if (order == problem.nodes) return false;

    ASSIGN_OR_RETURN(const MemoryProfile* profile,
                     context.analyses().Get<MemoryProfile>());
    const int64_t before = profile->block(block).peak_bytes;
    graph.mutable_block(block).nodes = std::move(order);
    context.analyses().InvalidateAll();
    ASSIGN_OR_RETURN(profile, context.analyses().Get<MemoryProfile>());
    const int64_t after = profile->block(block).peak_bytes;
    if (after >= before) {
      graph.mutable_block(block).nodes = problem.nodes;
      context.analyses().InvalidateAll();
      return false;
    }
    const std::string where =
        block == ir::kMainBlock
            ? ""
            : absl::StrCat(" of subgraph \"",
                           Printable(graph.block(block).name), "\"");
    context.Remark(
        absl::StrCat("live peak", where, " ", FormatBytes(before), " -> ",
                     FormatBytes(after), " (found by ", result.found_by,
                     result.optimal ? ", no order has a lower one)" : ")"));
    return true;
  }

  plan::ScheduleOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeReorder(
    pass::PassOptions& options) {
  plan::ScheduleOptions schedule;
  ASSIGN_OR_RETURN(
      const int64_t exact_nodes,
      options.Int("exact-nodes", schedule.exact_nodes,
                  "search exactly where at most so many nodes can be moved"));
  ASSIGN_OR_RETURN(const int64_t beam,
                   options.Int("beam", schedule.beam_width,
                               "states kept by the search on larger parts"));
  ASSIGN_OR_RETURN(schedule.max_states,
                   options.Int("max-states", schedule.max_states,
                               "bound on the work of all searches"));
  schedule.exact_nodes = static_cast<int>(std::min<int64_t>(exact_nodes, 64));
  schedule.beam_width = static_cast<int>(std::clamp<int64_t>(beam, 1, 1 << 20));
  return std::make_unique<Reorder>(std::move(schedule));
}

}  // namespace onnx_memopt::passes
