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
// regions may be split again. Norms over an image, which would end a region,
// are written in two phases where that helps (rewrite/two_phases.h). Cost: a
// few microseconds a part and node, products that read their weights once for
// each part, and halos that are computed twice; all within Goals::max_slowdown,
// by the time model. Refuses: regions whose live bytes would not fall by
// `worth`, random ops, subgraphs and calls as part of a region, models before
// opset 11, models with tensors of unknown size or of more than 10,000 nodes.
// Must not run after it: nothing.
//
// Options: max-regions (default 256), force (default 0).

#include <algorithm>
#include <limits>
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
#include "onnx_memopt/rewrite/two_phases.h"
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
    return rewrite::RewriteRaised(
        graph, [&](Graph& raised) { return Rewrite(raised, context); });
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
    ASSIGN_OR_RETURN(const rewrite::RewritePeaks now,
                     rewrite::PeaksForRewrite(graph));
    const int64_t before = now.first_bytes;
    const std::optional<int64_t> budget = context.goals().budget_bytes;
    if (budget && before <= *budget - kSteadyBytes) {
      context.Remark("left as it is: the peak is within the budget");
      return false;
    }
    rewrite::SplitSearchOptions options;
    options.max_seconds = context.max_seconds();
    if (budget) {
      // Tensors take less than the process does.
      const double share =
          std::min(1.0, static_cast<double>(profile->main().peak_bytes) /
                            static_cast<double>(before));
      options.enough_bytes = static_cast<int64_t>(
          share * static_cast<double>(*budget - kSteadyBytes));
    }
    ASSIGN_OR_RETURN(const double before_seconds,
                     rewrite::PredictSeconds(graph));
    const int64_t peak = profile->main().peak_bytes;
    const rewrite::TwoPhaseOptions large = {.min_bytes = peak / kPartOfPeak};
    rewrite::TwoPhaseOptions again = large;
    again.again_bytes = peak / kAgainPartOfPeak;
    std::optional<Found> best;
    std::string why_not;
    for (const Form& form :
         {Form{}, Form{.one_for_all = true}, Form{.norms = large},
          Form{.norms = again, .few_parts = true}, Form{.norms = again}}) {
      if (form.one_for_all && best.has_value() &&
          best->peak_bytes <= before / kEnough) {
        continue;
      }
      Graph start = graph.Clone();
      rewrite::TwoPhases phases;
      if (form.norms.has_value()) {
        phases = rewrite::TwoPhases::Write(start, *form.norms);
        if (phases.together().empty()) break;
        if (form.norms->again_bytes && phases.made_again() == 0) break;
      }
      options.few_parts = form.few_parts;
      options.max_slowdown = form.one_for_all
                                 ? std::numeric_limits<double>::infinity()
                                 : context.goals().max_slowdown;
      ASSIGN_OR_RETURN(std::optional<Found> found,
                       Search(std::move(start), phases, options, now, context,
                              form.norms.has_value() ? nullptr : &why_not));
      if (!found.has_value()) continue;
      // What the runtime fuses may take less than is known here, and halos are
      // paid for in any case.
      if (form.one_for_all && static_cast<double>(found->peak_bytes) >
                                  kWorthAllTime * static_cast<double>(before)) {
        why_not = absl::StrCat(
            "left as it is: ",
            Gain(before, found->peak_bytes, before_seconds, found->seconds),
            " (predicted) is too little for all the time that there is");
        continue;
      }
      if (!best.has_value() ||
          rewrite::Pays(best->peak_bytes, found->peak_bytes)) {
        best = std::move(found);
      }
      if (budget && best->peak_bytes <= *budget - kSteadyBytes) break;
    }
    if (!best.has_value()) {
      if (!why_not.empty()) context.Remark(why_not);
      return false;
    }
    graph = std::move(best->graph);
    context.analyses().InvalidateAll();
    for (size_t i = 0; i < std::min(best->remarks.size(), kShownRegions); ++i) {
      context.Remark(best->remarks[i]);
    }
    context.Remark(absl::StrCat(
        best->remarks.size(),
        best->remarks.size() == 1 ? " region" : " regions", ", ",
        Gain(before, best->peak_bytes, before_seconds, best->seconds),
        " (predicted)"));
    return true;
  }

  // Norms over an image end a region, unless they are written in two phases;
  // what the statistics are of may be made twice, so that it is never there as
  // a whole.
  struct Form {
    // A region may take all the time that there is: in a chain of convolutions
    // the first few hold the peak, and little else needs to be split.
    bool one_for_all = false;
    std::optional<rewrite::TwoPhaseOptions> norms;
    bool few_parts = false;
  };

  // The best state that was found.
  struct Found {
    Graph graph;
    int64_t peak_bytes = 0;  // of the first run
    double seconds = 0;
    std::vector<std::string> remarks;  // one for each region
  };

  // Splits regions of `graph`, in which norms may be written in two phases,
  // until none helps; nullopt if no state is better than `before`, and then
  // `why_not`, unless it is null, says why.
  absl::StatusOr<std::optional<Found>> Search(
      Graph graph, const rewrite::TwoPhases& phases,
      rewrite::SplitSearchOptions options, const rewrite::RewritePeaks& before,
      const pass::PassContext& context, std::string* why_not) const {
    const std::optional<int64_t> budget = context.goals().budget_bytes;
    options.together = phases.together();
    options.between_norms = !options.together.empty();
    if (options.between_norms) options.lower_peaks = kLowerPeaks;
    rewrite::SplitSearch search(std::move(options));
    std::vector<std::string> remarks;
    // A region may pay only together with later ones: networks repeat blocks,
    // and the peak falls when the last of them is split. What comes after the
    // best of all states is dropped.
    std::optional<Found> best;
    int64_t best_bytes = before.first_bytes;
    // What is written in two phases and in no region is as it was.
    std::optional<Graph> restored;
    const auto whole = [&]() -> const Graph& {
      if (phases.together().empty()) return graph;
      restored = graph.Clone();
      phases.RestoreUnused(*restored);
      return *restored;
    };
    ASSIGN_OR_RETURN(double seconds, rewrite::PredictSeconds(whole()));
    const double before_seconds = seconds;
    std::string reason;
    while (static_cast<int64_t>(remarks.size()) < max_regions_) {
      // What is written in two phases and not split yet does not stay.
      ASSIGN_OR_RETURN(const double now, rewrite::PredictSeconds(graph));
      search.set_max_seconds(context.max_seconds() + now - seconds);
      ASSIGN_OR_RETURN(const std::optional<rewrite::SplitFound> found,
                       search.Find(graph));
      if (!found.has_value()) {
        if (remarks.empty()) {
          reason = absl::StrCat("left as it is: ", search.tally().ToString());
        }
        break;
      }
      remarks.push_back(absl::StrCat(
          Printable(graph.DisplayName(found->plan.nodes.front().node)), " to ",
          Printable(graph.DisplayName(found->plan.nodes.back().node)), " (",
          found->plan.nodes.size(), " nodes) in ", found->plan.parts.ToString(),
          " parts: ", FormatBytes(found->before_bytes), " -> ",
          FormatBytes(found->after_bytes)));
      RETURN_IF_ERROR(SplitRegion(graph, found->plan).status());
      const Graph& now_whole = whole();
      ASSIGN_OR_RETURN(const rewrite::RewritePeaks then,
                       rewrite::PeaksForRewrite(now_whole));
      ASSIGN_OR_RETURN(seconds, rewrite::PredictSeconds(now_whole));
      reason = absl::StrCat(
          "left as it is: ", remarks.size(),
          remarks.size() == 1 ? " region" : " regions", " would not pay, ",
          Gain(before.first_bytes, then.first_bytes, before_seconds, seconds),
          ", without its arena ", FormatBytes(before.bare_bytes), " -> ",
          FormatBytes(then.bare_bytes), " (predicted)");
      if (seconds > context.max_seconds()) break;
      // The arena's regions are so coarse that its first peak may fall by
      // chance.
      if (rewrite::Pays(best_bytes, then.first_bytes) &&
          (rewrite::Pays(before.bare_bytes, then.bare_bytes) ||
           then.steady_bytes <= before.steady_bytes)) {
        best_bytes = then.first_bytes;
        best = Found{.graph = now_whole.Clone(),
                     .peak_bytes = best_bytes,
                     .seconds = seconds,
                     .remarks = remarks};
      }
      if (budget && best_bytes <= *budget - kSteadyBytes) break;
    }
    if (why_not != nullptr) *why_not = std::move(reason);
    return best;
  }

  static std::string Gain(int64_t before_bytes, int64_t after_bytes,
                          double before_seconds, double after_seconds) {
    return absl::StrCat(
        "first run in ONNX Runtime ", FormatBytes(before_bytes), " -> ",
        FormatBytes(after_bytes), ", time ",
        absl::StrFormat("%+.0f %%",
                        100 * (after_seconds / before_seconds - 1)));
  }

  // What later runs take more than the first, beside tensors.
  static constexpr int64_t kSteadyBytes = 512 << 10;
  static constexpr size_t kShownRegions = 8;
  // Where the peak is so many times lower, time was dealt out well.
  static constexpr int64_t kEnough = 2;
  // Of the peak, to give a region all the time that there is.
  static constexpr double kWorthAllTime = 0.85;
  // Norms of less than this part of the peak stay as they are.
  static constexpr int64_t kPartOfPeak = 32;
  // Buffers between norms are as large as the peak, and the runtime holds some
  // of them longer than they live.
  static constexpr int kLowerPeaks = 8;
  // What is made twice takes at least this part of it.
  static constexpr int64_t kAgainPartOfPeak = 5;
  // Each region that is tried costs a walk over the graph, and the larger the
  // graph, the more of them: the time is quadratic.
  static constexpr size_t kMaxNodes = 10'000;

  // Regions that may not pay: to test that any region may be split.
  absl::StatusOr<bool> Force(Graph& graph, pass::PassContext& context) const {
    Graph whole = graph.Clone();
    const rewrite::TwoPhases phases =
        rewrite::TwoPhases::Write(whole, {.again_bytes = 0});
    int regions = 0;
    for (int64_t i = 0; i < force_; ++i) {
      const std::optional<rewrite::SplitPlan> plan =
          rewrite::RandomRegion(whole, static_cast<uint64_t>(i));
      if (!plan.has_value()) continue;
      Graph changed = whole.Clone();
      const absl::Status status = SplitRegion(changed, *plan).status();
      if (absl::IsFailedPrecondition(status)) continue;
      RETURN_IF_ERROR(status);
      whole = std::move(changed);
      ++regions;
    }
    if (regions == 0) return false;
    phases.RestoreUnused(whole);
    graph = std::move(whole);
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
