// split: runs regions of the graph part by part.
//
//     x [16, ...]                  x
//     a = Conv(x)  16 images       y = Scan over the images of x {
//     b = Relu(a)  16 images   =>        a = Conv(part)   1 image
//     y = Pool(b)                        b = Relu(a)      1 image
//                                        Pool(b) }
//
// Why it saves memory: while a region runs, its inputs and outputs are there as
// a whole, and one part of all that is between them. The parts are items of the
// batch, heads, tokens or rows of a matrix, channels, rows of an image:
// whatever dimension the region's nodes keep apart, but for halos
// (docs/passes.md). A region is looked for at the highest step of the graph,
// then at the step that is highest then, and so on until none helps; bodies of
// regions may be split again. Cost: a few microseconds a part and node,
// products that read their weights once for each part, and halos that are
// computed twice; all within Goals::max_slowdown, by the time model. Refuses:
// regions whose live bytes would not fall by `worth`, random ops, subgraphs and
// calls as part of a region, models before opset 11, models with tensors of
// unknown size or of more than 10,000 nodes. Must not run after it: nothing.
//
// Options: max-regions (default 256), force (default 0).

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/grow_region.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/rewrite/raise_opset.h"
#include "onnx_memopt/rewrite/split_region.h"
#include "onnx_memopt/rewrite/split_search.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using analysis::MemoryProfile;
using ir::Graph;

class Split final : public pass::Pass {
 public:
  Split(int64_t max_regions, int64_t force)
      : max_regions_(max_regions), force_(force) {}

  absl::string_view name() const override { return "split"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    std::optional<Graph> raised = rewrite::RaiseOpset(graph);
    if (!raised.has_value()) return Rewrite(graph, context);
    // Analyses are of the graph as it was: what they say holds for both.
    ASSIGN_OR_RETURN(const bool changed, Rewrite(*raised, context));
    if (!changed) return false;
    graph = *std::move(raised);
    context.analyses().InvalidateAll();
    return true;
  }

 private:
  absl::StatusOr<bool> Rewrite(Graph& graph, pass::PassContext& context) const {
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
    ASSIGN_OR_RETURN(const MemoryProfile* profile,
                     context.analyses().Get<MemoryProfile>());
    ASSIGN_OR_RETURN(const analysis::RuntimePrediction now,
                     rewrite::PredictForRewrite(graph));
    const int64_t before = now.peak_first_bytes;
    const std::optional<int64_t> budget = context.goals().budget_bytes;
    if (budget && before <= *budget - kSteadyBytes) {
      context.Remark("left as it is: the peak is within the budget");
      return false;
    }
    rewrite::SplitSearchOptions options;
    options.max_slowdown = context.goals().max_slowdown;
    options.max_seconds = context.max_seconds();
    if (budget) {
      // Tensors take less than the process does.
      const double share =
          std::min(1.0, static_cast<double>(profile->main().peak_bytes) /
                            static_cast<double>(before));
      options.enough_bytes = static_cast<int64_t>(
          share * static_cast<double>(*budget - kSteadyBytes));
    }
    rewrite::SplitSearch search(options);
    ASSIGN_OR_RETURN(const double before_seconds,
                     rewrite::PredictSeconds(graph));
    Graph changed = graph.Clone();
    std::vector<std::string> remarks;
    // A region may pay only together with later ones: networks repeat blocks,
    // and the peak falls when the last of them is split. What comes after the
    // best of all states is dropped.
    std::optional<Graph> best;
    int64_t best_bytes = before;
    size_t best_regions = 0;
    double best_seconds = 0;
    while (static_cast<int64_t>(remarks.size()) < max_regions_) {
      ASSIGN_OR_RETURN(const std::optional<rewrite::SplitFound> found,
                       search.Find(changed));
      if (!found.has_value()) break;
      remarks.push_back(absl::StrCat(
          Printable(changed.DisplayName(found->plan.nodes.front().node)),
          " to ", Printable(changed.DisplayName(found->plan.nodes.back().node)),
          " (", found->plan.nodes.size(), " nodes) in ",
          found->plan.parts.ToString(),
          " parts: ", FormatBytes(found->before_bytes), " -> ",
          FormatBytes(found->after_bytes)));
      RETURN_IF_ERROR(SplitRegion(changed, found->plan).status());
      ASSIGN_OR_RETURN(const analysis::RuntimePrediction then,
                       rewrite::PredictForRewrite(changed));
      ASSIGN_OR_RETURN(const double seconds, rewrite::PredictSeconds(changed));
      if (seconds > context.max_seconds()) break;
      if (rewrite::Pays(best_bytes, then.peak_first_bytes)) {
        best = changed.Clone();
        best_bytes = then.peak_first_bytes;
        best_regions = remarks.size();
        best_seconds = seconds;
      }
      if (budget && best_bytes <= *budget - kSteadyBytes) break;
    }
    if (!best.has_value()) return false;
    graph = *std::move(best);
    context.analyses().InvalidateAll();
    for (size_t i = 0; i < std::min(best_regions, kShownRegions); ++i) {
      context.Remark(remarks[i]);
    }
    context.Remark(absl::StrCat(
        best_regions, best_regions == 1 ? " region" : " regions",
        ", first run in ONNX Runtime ", FormatBytes(before), " -> ",
        FormatBytes(best_bytes), ", time ",
        absl::StrFormat("%+.0f %%", 100 * (best_seconds / before_seconds - 1)),
        " (predicted)"));
    return true;
  }

  // What later runs take more than the first, beside tensors.
  static constexpr int64_t kSteadyBytes = 512 << 10;
  static constexpr size_t kShownRegions = 8;
  // Each region that is tried costs a walk over the graph, and the larger the
  // graph, the more of them: the time is quadratic.
  static constexpr size_t kMaxNodes = 10'000;

  // Regions that may not pay: to test that any region may be split.
  absl::StatusOr<bool> Force(Graph& graph, pass::PassContext& context) const {
    int regions = 0;
    for (int64_t i = 0; i < force_; ++i) {
      const std::optional<rewrite::SplitPlan> plan =
          rewrite::RandomRegion(graph, static_cast<uint64_t>(i));
      if (!plan.has_value()) continue;
      Graph changed = graph.Clone();
      const absl::Status status = SplitRegion(changed, *plan).status();
      if (absl::IsFailedPrecondition(status)) continue;
      RETURN_IF_ERROR(status);
      graph = std::move(changed);
      ++regions;
    }
    if (regions == 0) return false;
    context.Remark(absl::StrCat(regions, " regions, forced"));
    return true;
  }

  int64_t max_regions_;
  int64_t force_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeSplit(
    pass::PassOptions& options) {
  ASSIGN_OR_RETURN(const int64_t max_regions,
                   options.Int("max-regions", 256, "split at most so many"));
  ASSIGN_OR_RETURN(const int64_t force,
                   options.Int("force", 0,
                               "split about so many random regions, whether "
                               "it pays or not"));
  return std::make_unique<Split>(max_regions, force);
}

}  // namespace onnx_memopt::passes
