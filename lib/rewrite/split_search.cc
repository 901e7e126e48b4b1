#include "onnx_memopt/rewrite/split_search.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/load_growth.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/rewrite/grow_region.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/region_windows.h"
#include "onnx_memopt/rewrite/working_memory.h"
#include "onnx_memopt/support/status_macros.h"
#include "rewrite/region_cuts.h"
#include "rewrite/region_rules.h"
#include "rewrite/region_time.h"

namespace onnx_memopt::rewrite {
namespace {

using analysis::AnalysisManager;
using analysis::MemoryProfile;
using ir::BlockId;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::NodeId;
using ir::SplitWay;
using ir::ValueId;

// A few of them, evenly spread: small and large numbers of parts.
constexpr size_t kMaxPartCounts = 8;
// Sizes of parts that are tried for one that divides the extent.
constexpr int64_t kMaxLarger = 256;
// Where so many divide the extent, others are left out.
constexpr int kEnoughPartCounts = 3;
constexpr size_t kMaxSeeds = 12;
// Nodes on each side of a seed among which a region with windows is cut: its
// halo grows with each convolution.
constexpr size_t kNear = 48;
// Parts of a region whose parts overlap, if they are as large as they may be.
constexpr int64_t kOverlapping[] = {2,  3,  4,  6,  8,  12,  16,
                                    24, 32, 48, 64, 96, 128, 256};
constexpr int64_t kMaxParts = 4096;
// Of a matrix product in a part that overlaps others.
constexpr int64_t kOverlappingRows = 128;
// What a region may leave more than the one that it is like.
constexpr double kAsGood = 1.1;
// A region of 16 times the nodes may hold twice the bytes.
constexpr double kWidth = 0.25;
// Gain per time of regions that cost next to none: as if it were this part of
// a run.
constexpr double kLittleTime = 1e-3;

std::string SeedKey(const Graph& graph, NodeId id) {
  const ir::Node& node = graph.node(id);
  std::string key = node.op_type;
  for (ValueId result : node.results) {
    if (result != kNoValue) {
      absl::StrAppend(&key, " ", ToString(graph.value(result).type));
    }
  }
  return key;
}

}  // namespace

// Searches the regions around one step of one block.
class SplitSearch::Place {
 public:
  Place(const SplitSearchOptions& options, const Graph& graph, BlockId block,
        const analysis::Sizes& sizes, const analysis::LoadGrowth& growth,
        const WorkingMemory& memory, const analysis::TimeModel& time,
        SplitTally* tally)
      : options_(options),
        graph_(graph),
        sizes_(sizes),
        growth_(growth),
        time_(time),
        region_time_(graph, sizes, time,
                     {.max_slowdown = options.max_slowdown,
                      .max_seconds = options.max_seconds}),
        memory_(memory),
        bindings_(analysis::AssumedBindings(graph)),
        flow_(graph, block),
        returned_(graph.block(block).results.begin(),
                  graph.block(block).results.end()),
        tally_(*tally) {}

  absl::StatusOr<std::optional<SplitFound>> Run(
      std::vector<SplitRecipe>* recipes) {
    const int peak = memory_.peak_step;
    if (peak < 0 || peak >= flow_.size()) return std::optional<SplitFound>();
    const std::vector<int> seeds = Seeds(peak);
    for (const SplitRecipe& recipe : *recipes) {
      for (int seed : seeds) {
        RETURN_IF_ERROR(TryRecipe(recipe, seed));
      }
      // Where it gains less than it did, others may gain more.
      if (found_.has_value() &&
          (!options_.between_norms ||
           ShareLeft(*found_) <= kAsGood * recipe.share_left)) {
        return std::move(found_);
      }
      found_.reset();
    }
    cuts_.emplace(flow_, [&](ValueId value) { return Bytes(value); });
    for (int seed : seeds) {
      for (const SplitWay& way : flow_.ways(seed)) {
        RETURN_IF_ERROR(TryWay(seed, way));
      }
    }
    if (!found_.has_value()) return std::optional<SplitFound>();
    RETURN_IF_ERROR(ChooseParts());
    recipe_.parts = found_->plan.parts;
    recipe_.part = found_->plan.part;
    recipe_.share_left = ShareLeft(*found_);
    recipes->push_back(recipe_);
    return std::move(found_);
  }

 private:
  // In a run: what is computed from weights alone is there before.
  int64_t Bytes(ValueId value) const {
    return growth_.is_folded(value) ? 0 : sizes_.bytes(value).value_or(0);
  }

  static double ShareLeft(const SplitFound& found) {
    return static_cast<double>(found.after_bytes) /
           static_cast<double>(found.before_bytes);
  }

  // The node at the peak, and what makes or reads the large tensors there.
  std::vector<int> Seeds(int peak) const {
    std::vector<std::pair<int64_t, ValueId>> live;
    for (int p = 0; p <= peak; ++p) {
      for (ValueId result : graph_.node(flow_.node(p)).results) {
        if (result == kNoValue) continue;
        const auto& users = flow_.users(result);
        if (p == peak || (!users.empty() && users.back() >= peak)) {
          live.emplace_back(-Bytes(result), result);
        }
      }
    }
    std::sort(live.begin(), live.end());
    std::vector<int> seeds = {peak};
    const auto add = [&](int position) {
      if (position >= 0 && seeds.size() < kMaxSeeds &&
          std::find(seeds.begin(), seeds.end(), position) == seeds.end()) {
        seeds.push_back(position);
      }
    };
    for (const auto& [bytes, value] : live) {
      add(flow_.producer(value));
      for (int user : flow_.users(value)) add(user);
    }
    return seeds;
  }

  // How a region may be cut.
  struct Parts {
    Dim count;
    std::optional<int64_t> part;
  };

  static void Take(const Parts& parts, SplitPlan* plan) {
    plan->parts = parts.count;
    plan->part = parts.part;
  }

  // What a run would take longer for the fastest of the parts that are too
  // slow.
  using Slowdown = std::optional<double>;

  bool KeepsTime(const SplitPlan& plan, const Dim& parts,
                 const RegionWindows* windows, Slowdown* too_slow) const {
    if (region_time_.Keeps(plan, parts, windows)) return true;
    const double added = region_time_.AddedSeconds(plan, parts, windows);
    *too_slow = std::min(added, too_slow->value_or(added));
    return false;
  }

  // Those that are worth their time, from few parts to many.
  std::vector<Parts> PartCounts(const SplitPlan& plan,
                                Slowdown* too_slow) const {
    std::vector<Parts> counts;
    for (const Dim& parts : DivisorsOf(plan)) {
      if ((!parts.is_constant() || parts.constant() <= kMaxParts) &&
          KeepsTime(plan, parts, nullptr, too_slow)) {
        counts.push_back({.count = parts, .part = std::nullopt});
      }
    }
    if (counts.empty()) counts = OverlappingParts(plan, too_slow);
    while (counts.size() > kMaxPartCounts) {
      // Thin out, the ends stay.
      for (size_t i = 1; i + 1 < counts.size(); ++i) {
        counts.erase(counts.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    return counts;
  }

  // Ranges for parts of one size, which need not divide the extent.
  absl::StatusOr<RegionWindows> WindowsOf(const SplitPlan& plan) const {
    llvm::DenseSet<int> inside;
    for (const SplitNode& split : plan.nodes) {
      inside.insert(flow_.position(split.node));
    }
    return RegionWindows::Find(graph_, plan, [&](ValueId value) {
      const auto& users = flow_.users(value);
      return returned_.contains(value) ||
             std::any_of(users.begin(), users.end(),
                         [&](int user) { return !inside.contains(user); });
    });
  }

  std::vector<Parts> OverlappingParts(const SplitPlan& plan,
                                      Slowdown* too_slow) const {
    std::vector<Parts> counts;
    absl::StatusOr<RegionWindows> windows = WindowsOf(plan);
    if (!windows.ok()) return counts;
    const int64_t extent = windows->extent().Evaluate(bindings_).value_or(0);
    const int64_t grain = windows->grain();
    for (const int64_t count : kOverlapping) {
      const int64_t units = (extent + count * grain - 1) / (count * grain);
      // What divides the extent makes neither overlap nor copy.
      int64_t part = units * grain;
      const int64_t last = units + std::min(units / 8, kMaxLarger);
      for (int64_t larger = units; larger <= last; ++larger) {
        if (extent % (larger * grain) == 0) {
          part = larger * grain;
          break;
        }
      }
      if (part >= extent || (!counts.empty() && *counts.back().part == part)) {
        continue;
      }
      if (!windows->SetPart(part).ok()) continue;
      if (!KeepsRows(plan, *windows) ||
          !KeepsTime(plan, windows->parts(), &*windows, too_slow)) {
        continue;
      }
      counts.push_back({.count = windows->parts(), .part = part});
    }
    // Parts that do not divide the extent are copied once more when they are
    // joined, and take more room than the result.
    const auto divides = [&](const Parts& parts) {
      return extent % *parts.part == 0;
    };
    if (options_.between_norms && std::count_if(counts.begin(), counts.end(),
                                                divides) >= kEnoughPartCounts) {
      std::erase_if(counts,
                    [&](const Parts& parts) { return !divides(parts); });
    }
    return counts;
  }

  bool LeavesOneOfTwo(const SplitPlan& plan) const {
    llvm::DenseSet<NodeId> inside;
    for (const SplitNode& split : plan.nodes) inside.insert(split.node);
    return std::any_of(options_.together.begin(), options_.together.end(),
                       [&](const auto& pair) {
                         return inside.contains(pair.first) &&
                                !inside.contains(pair.second) &&
                                flow_.position(pair.second) >= 0;
                       });
  }

  // Parts that overlap are copies, and do not fall on the blocks that products
  // work in: with few rows those take half as long again.
  bool KeepsRows(const SplitPlan& plan, const RegionWindows& windows) const {
    for (const SplitNode& split : plan.nodes) {
      const ir::Node& node = graph_.node(split.node);
      if (node.op_type != "MatMul" && node.op_type != "Gemm") continue;
      const int axis = split.way.result_axes[0];
      const auto rank =
          static_cast<int>(graph_.value(node.results[0]).type.shape->size());
      if (axis + 2 >= rank &&
          windows.full_size(node.results[0], axis, windows.level(split.node)) <
              kOverlappingRows) {
        return false;
      }
    }
    return true;
  }

  // The lower the better: bytes, but a wide region is worth more than a narrow
  // one of as many, since it is one loop instead of several, and what it holds
  // can be split again.
  double Score(const SplitFound& found) const {
    if (options_.enough_bytes > 0) {
      const double little = kLittleTime * time_.total_seconds();
      const double added = std::max(found.added_seconds, 0.0) + little;
      // Below any that is not enough.
      if (found.after_bytes <= options_.enough_bytes) return -1 / added;
      return 1 / (static_cast<double>(found.before_bytes - found.after_bytes) /
                  added);
    }
    return static_cast<double>(found.after_bytes) /
           std::pow(static_cast<double>(found.plan.nodes.size()), kWidth);
  }

  absl::Status TryWay(int seed, const SplitWay& way) {
    const std::optional<SplitPlan> whole =
        GrowRegion(flow_, seed, way, 0, flow_.size());
    if (!whole.has_value()) return absl::OkStatus();
    std::vector<int> region;
    for (const SplitNode& split : whole->nodes) {
      region.push_back(flow_.position(split.node));
    }
    RETURN_IF_ERROR(TryCuts(region, seed, way));
    if (!NeedsWindows(*whole)) return absl::OkStatus();
    const auto at = std::find(region.begin(), region.end(), seed);
    const auto near = static_cast<std::ptrdiff_t>(kNear);
    const std::vector<int> around(at - std::min(near, at - region.begin()),
                                  at + std::min(near, region.end() - at));
    RETURN_IF_ERROR(TryCuts(around, seed, way));
    return TryPairs(cuts_->Nearest(region, seed, /*left=*/true),
                    cuts_->Nearest(region, seed, /*left=*/false), seed, way);
  }

  absl::Status TryCuts(const std::vector<int>& region, int seed,
                       const SplitWay& way) {
    return TryPairs(cuts_->Fewest(region, seed, /*left=*/true),
                    cuts_->Fewest(region, seed, /*left=*/false), seed, way);
  }

  absl::Status TryPairs(const std::vector<int>& begins,
                        const std::vector<int>& ends, int seed,
                        const SplitWay& way) {
    for (int begin : begins) {
      for (int end : ends) {
        RETURN_IF_ERROR(TryWindow(seed, way, begin, end));
      }
    }
    return absl::OkStatus();
  }

  // Why the runtime would not gain by it.
  std::optional<SplitRefusal> Refusal(const SplitPlan& plan) const {
    if (!HasProduct(graph_, plan)) return SplitRefusal::kNoProduct;
    if (SplitsFilters(graph_, plan) ||
        CutsConvolutions(flow_, plan, options_.between_norms)) {
      return SplitRefusal::kCutsConvolution;
    }
    if (LeavesOneOfTwo(plan)) return SplitRefusal::kLeavesStatistics;
    if (flow_.block() != ir::kMainBlock &&
        ReadsLargeWeights(graph_, sizes_, plan)) {
      return SplitRefusal::kUnpackedWeights;
    }
    return std::nullopt;
  }

  absl::Status TryWindow(int seed, const SplitWay& way, int begin, int end) {
    if (tried_ >= options_.max_candidates) return absl::OkStatus();
    std::optional<SplitPlan> plan = GrowRegion(flow_, seed, way, begin, end);
    if (!plan.has_value()) return absl::OkStatus();
    std::string key;
    for (const SplitNode& split : plan->nodes) {
      absl::StrAppend(&key, Index(split.node), ":",
                      split.way.result_axes.front(), " ");
    }
    if (!seen_.insert(std::move(key)).second) return absl::OkStatus();
    tally_.Look();
    if (const std::optional<SplitRefusal> why = Refusal(*plan)) {
      tally_.Refuse(*why);
      return absl::OkStatus();
    }
    Slowdown too_slow;
    const std::vector<Parts> counts = PartCounts(*plan, &too_slow);
    if (counts.empty()) {
      if (too_slow.has_value()) {
        tally_.RefuseTooSlow(*too_slow / time_.total_seconds());
      } else {
        tally_.Refuse(SplitRefusal::kNoSmallerPart);
      }
      return absl::OkStatus();
    }
    Take(counts.back(), &*plan);
    ++tried_;
    ASSIGN_OR_RETURN(const bool better, Try(*plan));
    if (better) {
      recipe_ = {.seed = SeedKey(graph_, flow_.node(seed)),
                 .way = ToString(way),
                 .begin = begin - seed,
                 .end = end - seed};
    }
    return absl::OkStatus();
  }

  absl::Status TryRecipe(const SplitRecipe& recipe, int seed) {
    if (SeedKey(graph_, flow_.node(seed)) != recipe.seed) {
      return absl::OkStatus();
    }
    for (const SplitWay& way : flow_.ways(seed)) {
      if (ToString(way) != recipe.way) continue;
      std::optional<SplitPlan> plan =
          GrowRegion(flow_, seed, way, std::max(0, seed + recipe.begin),
                     std::min(flow_.size(), seed + recipe.end));
      if (!plan.has_value() || Refusal(*plan).has_value()) continue;
      Slowdown too_slow;
      const std::vector<Parts> counts = PartCounts(*plan, &too_slow);
      if (std::none_of(counts.begin(), counts.end(), [&](const Parts& parts) {
            return parts.count == recipe.parts && parts.part == recipe.part;
          })) {
        continue;
      }
      Take({.count = recipe.parts, .part = recipe.part}, &*plan);
      tally_.Look();
      RETURN_IF_ERROR(Try(*plan).status());
    }
    return absl::OkStatus();
  }

  // Working memory at the highest step of a region, before and after it is
  // split; nullopt if it cannot be, or does not have the peak.
  absl::StatusOr<std::optional<SplitFound>> Measure(
      const SplitPlan& plan) const {
    SplitFound found{.plan = plan};
    if (plan.part.has_value()) {
      ASSIGN_OR_RETURN(RegionWindows windows, WindowsOf(plan));
      RETURN_IF_ERROR(windows.SetPart(*plan.part));
      found.added_seconds =
          region_time_.AddedSeconds(plan, plan.parts, &windows);
    } else {
      found.added_seconds = region_time_.AddedSeconds(plan, plan.parts);
    }
    const int first = flow_.position(plan.nodes.front().node);
    const int last = flow_.position(plan.nodes.back().node);
    for (int p = first; p <= last; ++p) {
      found.before_bytes = std::max(found.before_bytes, memory_.bytes[p]);
    }
    if (found.before_bytes < memory_.bytes[memory_.peak_step]) {
      return std::optional<SplitFound>();
    }
    Graph changed = graph_.Clone();
    const absl::StatusOr<NodeId> scan = SplitRegion(changed, plan);
    if (absl::IsFailedPrecondition(scan.status())) {
      return std::optional<SplitFound>();
    }
    RETURN_IF_ERROR(scan.status());
    AnalysisManager analyses(&changed);
    // The steps that were not there, and those that stood among the region's.
    ASSIGN_OR_RETURN(const WorkingMemory after,
                     WorkingMemoryOf(changed, analyses, plan.block));
    const auto& nodes = changed.block(plan.block).nodes;
    // Nodes behind the region are where they were; some of those before it may
    // have gone along, such as what makes filters.
    const size_t same_after = static_cast<size_t>(flow_.size() - 1 - last);
    for (size_t p = 0; p + same_after < nodes.size(); ++p) {
      // A node that stood among those of the region has a peak of its own,
      // which is no worse for it.
      const int old = flow_.position(nodes[p]);
      if (old >= 0 && old < first) continue;
      if (options_.between_norms && old >= 0 && old != memory_.peak_step &&
          after.bytes[p] <= memory_.bytes[old]) {
        continue;
      }
      found.after_bytes = std::max(found.after_bytes, after.bytes[p]);
    }
    return std::optional<SplitFound>(std::move(found));
  }

  // True if it is the best so far, and worth it.
  absl::StatusOr<bool> Try(const SplitPlan& plan) {
    ASSIGN_OR_RETURN(std::optional<SplitFound> found, Measure(plan));
    if (!found.has_value()) {
      tally_.Refuse(SplitRefusal::kMissesPeak);
      return false;
    }
    if (static_cast<double>(found->after_bytes) >
            options_.worth * static_cast<double>(found->before_bytes) ||
        found->before_bytes - found->after_bytes < options_.min_gain_bytes) {
      tally_.RefuseGain(1 - ShareLeft(*found),
                        found->added_seconds / time_.total_seconds());
      return false;
    }
    if (found_.has_value() && Score(*found_) <= Score(*found)) return false;
    found_ = std::move(found);
    return true;
  }

  // What loops take that are there already: to take less gains nothing.
  int64_t HeldByLoops() const {
    int64_t held = 0;
    if (!options_.few_parts) return held;
    for (int p = 0; p < flow_.size(); ++p) {
      if (!graph_.node(flow_.node(p)).blocks.empty()) {
        held = std::max(held, memory_.bytes[p]);
      }
    }
    return held;
  }

  absl::Status ChooseParts() {
    const int64_t best = found_->after_bytes;
    const int64_t held = HeldByLoops();
    Slowdown too_slow;
    const std::vector<Parts> counts = PartCounts(found_->plan, &too_slow);
    for (const Parts& parts : counts) {
      SplitPlan plan = found_->plan;
      Take(parts, &plan);
      ASSIGN_OR_RETURN(std::optional<SplitFound> found, Measure(plan));
      if (found.has_value() &&
          (found->after_bytes <= std::max(options_.enough_bytes, held) ||
           static_cast<double>(found->after_bytes) <=
               options_.tolerance * static_cast<double>(best))) {
        found_ = std::move(found);
        break;
      }
    }
    return absl::OkStatus();
  }

  const SplitSearchOptions& options_;
  const Graph& graph_;
  const analysis::Sizes& sizes_;
  const analysis::LoadGrowth& growth_;
  const analysis::TimeModel& time_;
  const RegionTime region_time_;
  const WorkingMemory& memory_;
  const ir::Bindings bindings_;
  const BlockFlow flow_;
  const llvm::DenseSet<ValueId> returned_;
  SplitTally& tally_;
  std::set<std::string> seen_;
  int tried_ = 0;
  std::optional<RegionCuts> cuts_;
  std::optional<SplitFound> found_;
  SplitRecipe recipe_;
};

absl::StatusOr<std::optional<SplitFound>> SplitSearch::Find(
    const Graph& graph) {
  tally_ = {};
  AnalysisManager analyses(&graph);
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  ASSIGN_OR_RETURN(const analysis::Sizes* sizes,
                   analyses.Get<analysis::Sizes>());
  ASSIGN_OR_RETURN(const analysis::LoadGrowth* growth,
                   analyses.Get<analysis::LoadGrowth>());
  ASSIGN_OR_RETURN(const analysis::TimeModel* time,
                   analyses.Get<analysis::TimeModel>());
  // From the main graph down to the innermost subgraph that runs at the peak.
  std::vector<BlockId> path = {ir::kMainBlock};
  std::vector<WorkingMemory> memory;
  while (true) {
    ASSIGN_OR_RETURN(WorkingMemory here,
                     WorkingMemoryOf(graph, analyses, path.back()));
    memory.push_back(std::move(here));
    const int peak = memory.back().peak_step;
    if (peak < 0) break;
    const auto& nodes = graph.block(path.back()).nodes;
    // With calls of functions, steps are not positions.
    if (memory.back().bytes.size() != nodes.size()) break;
    const NodeId node = nodes[static_cast<size_t>(peak)];
    BlockId next = ir::kNoBlock;
    for (BlockId block : graph.node(node).blocks) {
      if (next == ir::kNoBlock ||
          profile->block(block).peak_bytes > profile->block(next).peak_bytes) {
        next = block;
      }
    }
    if (next == ir::kNoBlock ||
        profile->block(path.back()).nested_bytes[peak] == 0) {
      break;
    }
    path.push_back(next);
  }
  for (size_t i = path.size(); i-- > 0;) {
    if (memory[i].bytes.size() != graph.block(path[i]).nodes.size()) continue;
    Place place(options_, graph, path[i], *sizes, *growth, memory[i], *time,
                &tally_);
    ASSIGN_OR_RETURN(std::optional<SplitFound> found, place.Run(&recipes_));
    if (found.has_value()) return found;
  }
  std::optional<SplitFound> none;
  if (options_.lower_peaks == 0 || memory.front().peak_step < 0) return none;
  // Lower peaks: buffers that the runtime holds may make more of them.
  WorkingMemory& main = memory.front();
  for (const int step : LowerPeaks(graph, main, options_.lower_peaks)) {
    main.peak_step = step;
    Place place(options_, graph, ir::kMainBlock, *sizes, *growth, main, *time,
                &tally_);
    ASSIGN_OR_RETURN(std::optional<SplitFound> found, place.Run(&recipes_));
    if (found.has_value()) return found;
  }
  return none;
}

}  // namespace onnx_memopt::rewrite
