// reorder: puts the nodes of the main graph and of each subgraph in an order in
// which the runtime takes less memory.
//
//     breadth first            depth first
//     a b c d  A B C D  join   a A b B c C d D  join
//     all of a..d live at      one of a..d lives at
//     once                     a time
//
// Why it saves memory: between two valid orders the peak may differ several
// times; exporters write the order in which the program ran. ONNX Runtime with
// default options does not run the order of the file but a walk from the
// outputs, in which the file decides which branch of a join comes first; with
// target=onnxruntime (the default) that walk is what is made better, and among
// the files that lead to it one with a low live peak is taken, for runtimes
// that follow the file. With target=ideal the live peak alone counts. Cost:
// none in the run. Refuses: an order is taken only if a peak falls and none
// that the target has grows; graphs with tensors of unknown size; a call of a
// model-local function moves as a whole. What must not run after it: a pass
// that appends or moves nodes without looking at the peak. The searches are
// plan::MinimizePeak and rewrite::FindFileOrder; what they find is replayed by
// plan::EvaluateSchedule, MemoryProfile and PredictRuntime.
//
// Options: target (onnxruntime or ideal), exact-nodes (default 24), beam
// (default 64), max-states.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/schedule_problem.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/rewrite/order_search.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using analysis::MemoryProfile;
using ir::BlockId;
using ir::Graph;
using ir::NodeId;

enum class Target : uint8_t { kOnnxRuntime, kIdeal };

using Order = std::vector<int32_t>;

class Reorder final : public pass::Pass {
 public:
  Reorder(Target target, plan::ScheduleOptions options)
      : target_(target), options_(std::move(options)) {}

  absl::string_view name() const override { return "reorder"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    ASSIGN_OR_RETURN(const analysis::Timeline* timeline,
                     context.analyses().Get<analysis::Timeline>());
    if (const absl::Status status =
            rewrite::CheckSizesKnown(context.analyses());
        !status.ok()) {
      return context.LeaveAsIs(status);
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
  // What is compared. Which of the two decides depends on the target.
  struct Peaks {
    int64_t live = 0;
    analysis::RuntimePrediction runtime;
    int64_t bare = 0;       // of the block
    int64_t main_bare = 0;  // of the main graph
  };

  // An order with the node numbers of the problem.
  struct Found {
    Order order;
    std::string how;
  };

  absl::StatusOr<plan::ScheduleResult> Plan(
      const plan::ScheduleProblem& problem, Order initial) const {
    plan::ScheduleOptions options = options_;
    options.initial_order = std::move(initial);
    ASSIGN_OR_RETURN(plan::ScheduleResult result,
                     plan::MinimizePeak(problem, options));
    ASSIGN_OR_RETURN(const plan::ScheduleProfile replay,
                     plan::EvaluateSchedule(problem, result.order));
    if (replay.peak_bytes != result.peak_bytes) {
      return absl::InternalError(
          absl::StrCat("the planned peak is ", result.peak_bytes,
                       " bytes, its replay has ", replay.peak_bytes));
    }
    return result;
  }

  static std::string HowFound(const plan::ScheduleResult& result) {
    return absl::StrCat("found by ", result.found_by,
                        result.optimal ? ", no order has a lower one" : "");
  }

  // For the runtime: the best walk that was found, and of the files that lead
  // to it one with a low live peak.
  absl::StatusOr<Found> FindForRuntime(
      const Graph& graph, const analysis::RuntimeBlock& runtime_block,
      analysis::ScheduleProblemOfBlock problem,
      const plan::ScheduleResult& ideal) const {
    std::vector<Order> after;
    after.reserve(problem.problem.nodes.size());
    for (const plan::ScheduleNode& node : problem.problem.nodes) {
      after.push_back(node.after);
    }
    for (const plan::ScheduleBuffer& buffer : problem.problem.buffers) {
      if (buffer.producer < 0) continue;
      for (int32_t reader : buffer.readers) {
        if (reader != buffer.producer) {
          after[static_cast<size_t>(reader)].push_back(buffer.producer);
        }
      }
    }
    for (Order& before : after) {
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
    }
    const rewrite::FileOrders orders(graph, runtime_block, problem.nodes,
                                     std::move(after));
    Order present(problem.nodes.size());
    std::iota(present.begin(), present.end(), 0);
    rewrite::FileOrderFound found = rewrite::FindFileOrder(
        orders, {present, ideal.order}, rewrite::RewriteOptions(),
        {.max_steps = options_.max_states / 4});
    const std::vector<int32_t> ranks = orders.Ranks(found.order);
    if (IsNoWorse(runtime_block, orders.Ranks(ideal.order), ranks)) {
      return Found{.order = ideal.order, .how = HowFound(ideal)};
    }
    for (const auto& [first, second] :
         orders.PairsOf(WalkDepthFirst(runtime_block, ranks))) {
      Order& before = problem.problem.nodes[static_cast<size_t>(second)].after;
      before.push_back(first);
    }
    for (plan::ScheduleNode& node : problem.problem.nodes) {
      std::sort(node.after.begin(), node.after.end());
      node.after.erase(std::unique(node.after.begin(), node.after.end()),
                       node.after.end());
    }
    ASSIGN_OR_RETURN(const plan::ScheduleResult planned,
                     Plan(problem.problem, found.order));
    return Found{.order = planned.order,
                 .how = found.optimal ? "no file leads to a lower one"
                                      : "the best found"};
  }

  // For the runtime, with all its peaks.
  static bool IsNoWorse(const analysis::RuntimeBlock& block, const Order& a,
                        const Order& b) {
    const analysis::RuntimeOptions options = rewrite::RewriteOptions();
    const auto bare = [&](const Order& ranks) {
      const Order order = RunOrder(block, options.execution_order, ranks);
      return BarePeak(block, order, PlanBuffers(block, order, options));
    };
    if (bare(a) > bare(b)) return false;
    const analysis::RuntimePeaks peaks = PredictPeaks(block, options, a);
    const analysis::RuntimePeaks other = PredictPeaks(block, options, b);
    return peaks.first_bytes <= other.first_bytes &&
           peaks.steady_bytes <= other.steady_bytes;
  }

  static absl::StatusOr<Peaks> Measure(const Graph& graph, BlockId block) {
    analysis::AnalysisManager analyses(&graph);
    ASSIGN_OR_RETURN(const MemoryProfile* profile,
                     analyses.Get<MemoryProfile>());
    Peaks peaks{.live = profile->block(block).peak_bytes};
    const analysis::RuntimeOptions options = rewrite::PeakOptions();
    ASSIGN_OR_RETURN(peaks.runtime, PredictRuntime(graph, analyses, options));
    ASSIGN_OR_RETURN(peaks.main_bare,
                     PredictBarePeak(graph, analyses, options));
    if (block == ir::kMainBlock) {
      peaks.bare = peaks.main_bare;
      return peaks;
    }
    ASSIGN_OR_RETURN(const analysis::RuntimeBlock built,
                     BuildRuntimeBlock(graph, analyses, block, options));
    const Order order = RunOrder(built, options.execution_order);
    peaks.bare = BarePeak(built, order, PlanBuffers(built, order, options));
    return peaks;
  }

  bool Takes(const Peaks& before, const Peaks& after) const {
    if (target_ == Target::kIdeal) return after.live < before.live;
    if (after.bare > before.bare || after.main_bare > before.main_bare ||
        after.runtime.peak_first_bytes > before.runtime.peak_first_bytes ||
        after.runtime.peak_steady_bytes > before.runtime.peak_steady_bytes) {
      return false;
    }
    return IsWorth(before.bare, after.bare) || after.live < before.live;
  }

  // Not for a few bytes of alignment in a large model.
  static bool IsWorth(int64_t before, int64_t after) {
    return before - after > before / 1024;
  }

  absl::StatusOr<bool> ReorderBlock(Graph& graph, BlockId block,
                                    pass::PassContext& context) const {
    ASSIGN_OR_RETURN(const analysis::ScheduleProblemOfBlock problem,
                     BuildScheduleProblem(graph, context.analyses(), block));
    ASSIGN_OR_RETURN(const plan::ScheduleResult ideal,
                     Plan(problem.problem, {}));
    Found found{.order = ideal.order, .how = HowFound(ideal)};
    if (target_ == Target::kOnnxRuntime) {
      ASSIGN_OR_RETURN(const analysis::RuntimeBlock runtime_block,
                       BuildRuntimeBlock(graph, context.analyses(), block,
                                         rewrite::RewriteOptions()));
      ASSIGN_OR_RETURN(found,
                       FindForRuntime(graph, runtime_block, problem, ideal));
    }
    std::vector<NodeId> order;
    order.reserve(found.order.size());
    for (int32_t i : found.order) {
      order.push_back(problem.nodes[static_cast<size_t>(i)]);
    }
    if (order == problem.nodes) return false;

    ASSIGN_OR_RETURN(const Peaks before, Measure(graph, block));
    graph.mutable_block(block).nodes = std::move(order);
    context.analyses().InvalidateAll();
    ASSIGN_OR_RETURN(const Peaks after, Measure(graph, block));
    if (!Takes(before, after)) {
      graph.mutable_block(block).nodes = problem.nodes;
      return false;
    }
    const std::string where =
        block == ir::kMainBlock
            ? ""
            : absl::StrCat(" of subgraph \"",
                           Printable(graph.block(block).name), "\"");
    const bool for_runtime =
        target_ == Target::kOnnxRuntime && IsWorth(before.bare, after.bare);
    std::string remark;
    if (for_runtime) {
      absl::StrAppend(&remark, "tensors", where, " in ONNX Runtime's order ",
                      FormatBytes(before.bare), " -> ",
                      FormatBytes(after.bare));
    }
    if (!for_runtime || after.live != before.live) {
      absl::StrAppend(&remark, for_runtime ? ", " : "", "live peak",
                      for_runtime ? "" : where, " ", FormatBytes(before.live),
                      " -> ", FormatBytes(after.live));
    }
    context.Remark(absl::StrCat(remark, " (", found.how, ")"));
    return true;
  }

  Target target_;
  plan::ScheduleOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeReorder(
    pass::PassOptions& options) {
  plan::ScheduleOptions schedule;
  ASSIGN_OR_RETURN(const size_t target,
                   options.Choice("target", {"onnxruntime", "ideal"},
                                  "or ideal: whose peak is to fall"));
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
  return std::make_unique<Reorder>(
      target == 0 ? Target::kOnnxRuntime : Target::kIdeal, std::move(schedule));
}

}  // namespace onnx_memopt::passes
