#include "onnx_memopt/rewrite/region_windows.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::NodeId;
using ir::SplitWay;
using ir::ValueId;

// Beyond these no real model goes; products of two stay in range.
constexpr int64_t kMaxRatio = int64_t{1} << 20;
constexpr int64_t kMaxHalo = int64_t{1} << 30;
constexpr int64_t kMaxExtent = int64_t{1} << 36;
// A level has to be so much narrower than the one before it: it costs a copy.
constexpr double kWorthALevel = 0.04;
constexpr int kMaxLevels = 8;

int64_t FloorOf(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}
int64_t CeilOf(int64_t a, int64_t b) { return -FloorOf(-a, b); }
int64_t RoundUp(int64_t a, int64_t unit) { return CeilOf(a, unit) * unit; }

absl::Status Refuse(const Graph& graph, NodeId node, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("node \"", Printable(graph.DisplayName(node)), "\" ", why));
}

// a * num / den with common factors removed; nullopt if it is out of range.
std::optional<Ratio> Times(Ratio a, int64_t num, int64_t den) {
  if (num < 1 || den < 1 || num > kMaxRatio || den > kMaxRatio) {
    return std::nullopt;
  }
  Ratio product{.num = a.num * num, .den = a.den * den};
  const int64_t common = std::gcd(product.num, product.den);
  product.num /= common;
  product.den /= common;
  if (product.num > kMaxRatio || product.den > kMaxRatio) return std::nullopt;
  return product;
}

bool operator==(Ratio a, Ratio b) { return a.num == b.num && a.den == b.den; }

}  // namespace

absl::StatusOr<RegionWindows> RegionWindows::Find(const Graph& graph,
                                                  const SplitPlan& plan) {
  llvm::DenseSet<NodeId> inside;
  for (const SplitNode& split : plan.nodes) inside.insert(split.node);
  llvm::DenseSet<ValueId> read_outside;
  std::vector<ValueId> uses;
  for (const NodeId id : graph.block(plan.block).nodes) {
    if (!inside.contains(id)) ir::CollectUses(graph, id, &uses);
  }
  for (const ValueId value : uses) read_outside.insert(value);
  for (const ValueId value : graph.block(plan.block).results) {
    read_outside.insert(value);
  }
  return Find(graph, plan,
              [&](ValueId value) { return read_outside.contains(value); });
}

absl::StatusOr<RegionWindows> RegionWindows::Find(
    const Graph& graph, const SplitPlan& plan,
    llvm::function_ref<bool(ValueId)> is_read_outside) {
  RegionWindows windows;
  RETURN_IF_ERROR(windows.FindRatios(graph, plan));
  RETURN_IF_ERROR(windows.FindExtent(graph, plan, is_read_outside));
  RETURN_IF_ERROR(windows.FindGrain(plan));
  RETURN_IF_ERROR(windows.FindNeeds(graph, plan));
  return windows;
}

// From the first node on, over the tensors that are split, to all others.
absl::Status RegionWindows::FindRatios(const Graph& graph,
                                       const SplitPlan& plan) {
  std::vector<std::optional<Ratio>> ratios;
  const auto add_place = [&](ValueId value, int axis) {
    const auto [it, added] = index_.try_emplace({value, axis}, places_.size());
    if (added) {
      places_.emplace_back();
      ratios.emplace_back();
    }
    return it->second;
  };
  std::vector<std::vector<size_t>> touching;  // steps, by place
  llvm::DenseMap<ValueId, size_t> maker;
  for (const SplitNode& split : plan.nodes) {
    const ir::Node& node = graph.node(split.node);
    Step step;
    step.node = split.node;
    const auto touch = [&](size_t place) {
      touching.resize(places_.size());
      touching[place].push_back(steps_.size());
    };
    for (size_t i = 0; i < split.way.operands.size(); ++i) {
      const ir::OperandFlow& flow = split.way.operands[i];
      if (flow.axis < 0 || node.operands[i] == kNoValue) continue;
      if (!flow.num.is_constant() || !flow.den.is_constant()) {
        return Refuse(graph, split.node, "has parts of symbolic size");
      }
      const size_t place = add_place(node.operands[i], flow.axis);
      step.operands.push_back({.place = place, .before = 0, .after = 0});
      touch(place);
      if (flow.den.constant() > flow.num.constant()) step.enlarges = true;
      const auto made = maker.find(node.operands[i]);
      if (made != maker.end()) step.inside.push_back(made->second);
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (node.results[r] == kNoValue) continue;
      if (split.way.result_axes[r] < 0) {
        return Refuse(graph, split.node, "has a result that is not split");
      }
      const size_t place = add_place(node.results[r], split.way.result_axes[r]);
      step.results.push_back(place);
      touch(place);
      maker[node.results[r]] = steps_.size();
    }
    step_[split.node] = steps_.size();
    steps_.push_back(std::move(step));
  }
  if (steps_.empty() || steps_.front().results.empty()) {
    return absl::FailedPreconditionError("the region is empty");
  }

  // The ratio of results of a step, and of each operand from it.
  const auto flow_of = [&](size_t s, size_t k) -> const ir::OperandFlow& {
    const SplitNode& split = plan.nodes[s];
    size_t seen = 0;
    size_t i = 0;
    for (;; ++i) {
      if (split.way.operands[i].axis < 0 ||
          graph.node(split.node).operands[i] == kNoValue) {
        continue;
      }
      if (seen++ == k) return split.way.operands[i];
    }
  };
  std::vector<bool> done(steps_.size(), false);
  std::deque<size_t> pending = {0};
  ratios[steps_.front().results.front()] = Ratio{};
  while (!pending.empty()) {
    const size_t s = pending.front();
    pending.pop_front();
    if (done[s]) continue;
    done[s] = true;
    const Step& step = steps_[s];
    std::optional<Ratio> own;
    for (const size_t place : step.results) {
      if (ratios[place].has_value()) own = ratios[place];
    }
    for (size_t k = 0; k < step.operands.size() && !own.has_value(); ++k) {
      const ir::OperandFlow& flow = flow_of(s, k);
      if (ratios[step.operands[k].place].has_value()) {
        own = Times(*ratios[step.operands[k].place], flow.den.constant(),
                    flow.num.constant());
        if (!own.has_value()) break;
      }
    }
    if (!own.has_value()) {
      return Refuse(graph, step.node, "changes sizes by too much");
    }
    const auto settle = [&](size_t place, std::optional<Ratio> ratio) {
      if (!ratio.has_value()) return false;
      if (ratios[place].has_value()) return *ratios[place] == *ratio;
      ratios[place] = ratio;
      return true;
    };
    bool agrees = true;
    for (const size_t place : step.results) {
      agrees = agrees && settle(place, own);
    }
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const ir::OperandFlow& flow = flow_of(s, k);
      agrees = agrees &&
               settle(step.operands[k].place,
                      Times(*own, flow.num.constant(), flow.den.constant()));
    }
    if (!agrees) {
      return Refuse(graph, step.node,
                    "needs a range that moves at another rate");
    }
    const auto visit = [&](size_t place) {
      for (const size_t other : touching[place]) pending.push_back(other);
    };
    for (const size_t place : step.results) visit(place);
    for (const Need& need : step.operands) visit(need.place);
  }
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!done[s]) {
      return Refuse(graph, steps_[s].node,
                    "has nothing that is split in common with the others");
    }
  }
  for (size_t p = 0; p < places_.size(); ++p) places_[p].ratio = *ratios[p];
  return absl::OkStatus();
}

// In elements of what leaves the region.
absl::Status RegionWindows::FindExtent(
    const Graph& graph, const SplitPlan& plan,
    llvm::function_ref<bool(ValueId)> is_read_outside) {
  int64_t common_den = 1;
  int64_t common_num = 0;
  for (const SplitNode& split : plan.nodes) {
    const ir::Node& node = graph.node(split.node);
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId value = node.results[r];
      if (value == kNoValue ||
          (!is_read_outside(value) && !graph.value(value).pinned)) {
        continue;
      }
      outputs_.push_back(index_.lookup({value, split.way.result_axes[r]}));
      const Ratio ratio = places_[outputs_.back()].ratio;
      common_den = std::lcm(common_den, ratio.den);
      common_num = std::gcd(common_num, ratio.num);
      if (common_den > kMaxRatio) {
        return Refuse(graph, split.node, "changes sizes by too much");
      }
    }
  }
  if (outputs_.empty()) {
    return absl::FailedPreconditionError("nothing leaves the region");
  }
  for (auto& [key, p] : index_) {
    const std::optional<Ratio> ratio =
        Times(places_[p].ratio, common_den, common_num);
    const auto& shape = graph.value(key.first).type.shape;
    if (!ratio.has_value() || !shape.has_value() ||
        key.second >= static_cast<int>(shape->size()) ||
        !(*shape)[key.second].has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("\"", Printable(graph.value(key.first).name),
                       "\" has an extent that is not known"));
    }
    places_[p].ratio = *ratio;
    places_[p].extent = *(*shape)[key.second];
  }
  // An axis that is made twice as long by a ratio of 1/2 has ratio 1 now.
  for (const size_t p : outputs_) {
    const std::optional<Dim> whole =
        DivideExact(places_[p].extent, places_[p].ratio.num);
    if (places_[p].ratio.den != 1 || !whole.has_value() ||
        (p != outputs_.front() && *whole != extent_)) {
      return absl::FailedPreconditionError(
          "what leaves the region does not have parts of one size");
    }
    extent_ = *whole;
  }
  if (extent_.is_constant() &&
      (extent_.constant() < 2 || extent_.constant() > kMaxExtent)) {
    return absl::FailedPreconditionError("the extent is out of range");
  }
  for (Place& place : places_) {
    const std::optional<Dim> proportional = Mul(extent_, place.ratio.num);
    const std::optional<Dim> own = Mul(place.extent, place.ratio.den);
    const std::optional<Dim> deficit =
        proportional && own ? Sub(*proportional, *own) : std::nullopt;
    if (!deficit.has_value() || !deficit->is_constant() ||
        std::abs(deficit->constant()) > kMaxHalo) {
      return absl::FailedPreconditionError(
          absl::StrCat("an extent of ", place.extent.ToString(),
                       " is no constant away from ", "being proportional to ",
                       extent_.ToString()));
    }
    place.deficit = deficit->constant();
  }
  return absl::OkStatus();
}

// Ranges begin at a whole element of each tensor.
absl::Status RegionWindows::FindGrain(const SplitPlan& plan) {
  for (size_t s = 0; s < steps_.size(); ++s) {
    Step& step = steps_[s];
    const auto include = [&](int64_t unit) {
      step.grain = std::lcm(step.grain, unit);
      grain_ = std::lcm(grain_, unit);
      return grain_ <= kMaxRatio;
    };
    const Dim& grain = plan.nodes[s].way.grain;
    bool small = grain.is_constant() && grain.constant() <= kMaxRatio;
    for (const Need& need : step.operands) {
      small = small && include(places_[need.place].ratio.den);
    }
    for (const size_t p : step.results) {
      const Ratio ratio = places_[p].ratio;
      small = small && include(ratio.den);
      if (!small) break;
      const int64_t unit = grain.constant() * ratio.den;
      small = unit / std::gcd(unit, ratio.num) <= kMaxRatio &&
              include(unit / std::gcd(unit, ratio.num));
    }
    if (!small) {
      return absl::FailedPreconditionError("parts have no common grain");
    }
  }
  if (!extent_.is_constant() && !DivideExact(extent_, grain_).has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(extent_.ToString(), " may be no multiple of ", grain_));
  }
  return absl::OkStatus();
}

absl::Status RegionWindows::FindNeeds(const Graph& graph,
                                      const SplitPlan& plan) {
  const auto require = [](Place& place, int64_t before, int64_t after) {
    place.before = place.needed ? std::max(place.before, before) : before;
    place.after = place.needed ? std::max(place.after, after) : after;
    place.needed = true;
  };
  for (const size_t p : outputs_) require(places_[p], 0, 0);
  for (size_t s = steps_.size(); s-- > 0;) {
    Step& step = steps_[s];
    const SplitWay& way = plan.nodes[s].way;
    // What nobody reads is needed as far as it is made.
    int64_t before = 0;
    int64_t after = 0;
    bool needed = false;
    for (const size_t p : step.results) {
      const Place& place = places_[p];
      if (!place.needed) continue;
      before = needed ? std::max(before, place.before) : place.before;
      after = needed ? std::max(after, place.after) : place.after;
      needed = true;
    }
    for (const size_t p : step.results) require(places_[p], before, after);
    size_t k = 0;
    for (size_t i = 0; i < way.operands.size(); ++i) {
      const ir::OperandFlow& flow = way.operands[i];
      if (flow.axis < 0 || graph.node(step.node).operands[i] == kNoValue) {
        continue;
      }
      const int64_t num = flow.num.constant();
      const int64_t den = flow.den.constant();
      Need& need = step.operands[k++];
      need.before = CeilOf(before * num, den) + flow.before;
      need.after = CeilOf(after * num, den) + flow.after;
      if (std::abs(need.before) > kMaxHalo || std::abs(need.after) > kMaxHalo) {
        return Refuse(graph, step.node, "needs too much around a part");
      }
      require(places_[need.place], need.before, need.after);
    }
  }
  return absl::OkStatus();
}

// With a cut behind each of the steps that are marked.
std::vector<RegionWindows::Level> RegionWindows::Levels(
    const std::vector<bool>& cuts) {
  int last = 0;
  for (Step& step : steps_) {
    step.level = 0;
    for (const size_t from : step.inside) {
      step.level =
          std::max(step.level, steps_[from].level + (cuts[from] ? 1 : 0));
    }
    last = std::max(last, step.level);
  }
  std::vector<Level> levels(static_cast<size_t>(last) + 1);
  std::vector<int64_t> after(levels.size(), 0);
  const auto include = [&](int level, size_t p, int64_t before,
                           int64_t behind) {
    const Place& place = places_[p];
    const auto k = static_cast<size_t>(level);
    levels[k].before = std::max(
        levels[k].before, CeilOf(before * place.ratio.den, place.ratio.num));
    after[k] = std::max(
        after[k],
        CeilOf(behind * place.ratio.den + place.deficit, place.ratio.num));
  };
  for (const Step& step : steps_) {
    int64_t& grain = levels[static_cast<size_t>(step.level)].grain;
    grain = std::lcm(grain, step.grain);
    for (const Need& need : step.operands) {
      include(step.level, need.place, need.before, need.after);
    }
    for (const size_t p : step.results) {
      include(step.level, p, places_[p].before, places_[p].after);
    }
  }
  // The last part may begin within a grain.
  const bool uneven = extent_.is_constant() && extent_.constant() % grain_ != 0;
  const int64_t remainder = extent_.is_constant() ? extent_.constant() : 0;
  for (size_t k = levels.size(); k-- > 0;) {
    Level& level = levels[k];
    if (k + 1 < levels.size()) {
      // A level lies within the one before it.
      const Level& inner = levels[k + 1];
      level.before = std::max(level.before, inner.before);
      after[k] = std::max(after[k], inner.length - inner.before - part_);
    }
    level.before = RoundUp(level.before, level.grain);
    const int64_t least =
        part_ + level.before + after[k] + (uneven ? grain_ : 0);
    // As far from a multiple of the grain as the extent is.
    level.length =
        least + ((remainder - least) % level.grain + level.grain) % level.grain;
  }
  for (Level& level : levels) {
    if (extent_.is_constant()) {
      level.length = std::min(level.length, extent_.constant());
    }
  }
  levels.push_back({.grain = 1, .before = 0, .length = part_});
  return levels;
}

absl::Status RegionWindows::SetPart(int64_t part) {
  if (part < 1 || part > kMaxExtent || part % grain_ != 0 ||
      (extent_.is_constant() && part >= extent_.constant())) {
    return absl::FailedPreconditionError(
        absl::StrCat(extent_.ToString(), " has no parts of ", part));
  }
  part_ = part;
  const std::optional<Dim> parts = CeilDiv(extent_, part);
  if (!parts.has_value()) {
    return absl::FailedPreconditionError("too many parts");
  }
  parts_ = *parts;
  exact_ = DivideExact(extent_, part).has_value();
  std::vector<bool> cuts(steps_.size(), false);
  levels_ = Levels(cuts);
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!steps_[s].enlarges || static_cast<int>(levels_.size()) > kMaxLevels) {
      continue;
    }
    const auto here = static_cast<size_t>(steps_[s].level);
    cuts[s] = true;
    std::vector<Level> levels = Levels(cuts);
    const bool helps =
        levels.size() > levels_.size() &&
        static_cast<double>(levels[here + 1].length) <=
            (1 - kWorthALevel) * static_cast<double>(levels[here].length);
    if (helps) {
      levels_ = std::move(levels);
    } else {
      cuts[s] = false;
    }
  }
  levels_ = Levels(cuts);
  for (const Step& step : steps_) {
    for (const size_t p : step.results) {
      const Place& place = places_[p];
      const int64_t length = levels_[static_cast<size_t>(step.level)].length;
      if (place.ratio.num * length <= place.deficit) {
        return absl::FailedPreconditionError("a part is empty");
      }
    }
  }
  return absl::OkStatus();
}

int RegionWindows::level(NodeId node) const {
  return steps_[step_.lookup(node)].level;
}

const RegionWindows::Place& RegionWindows::place(ValueId value,
                                                 int axis) const {
  const auto it = index_.find({value, axis});
  assert(it != index_.end() && "not split by this region");
  return places_[it->second];
}

Ratio RegionWindows::ratio(ValueId value, int axis) const {
  return place(value, axis).ratio;
}

int64_t RegionWindows::deficit(ValueId value, int axis) const {
  return place(value, axis).deficit;
}

int64_t RegionWindows::full_size(ValueId value, int axis, int level) const {
  const Place& at = place(value, axis);
  const int64_t length = levels_[static_cast<size_t>(level)].length;
  return (at.ratio.num * length - at.deficit) / at.ratio.den;
}

Dim RegionWindows::size(ValueId value, int axis, int level) const {
  const int64_t full = full_size(value, axis, level);
  // Of a constant extent, ranges are never larger.
  if (extent_.is_constant()) return Dim(full);
  return Min(place(value, axis).extent, Dim(full)).value_or(Dim(full));
}

int64_t RegionWindows::Begin(int level, int64_t step) const {
  assert(extent_.is_constant());
  const int64_t extent = extent_.constant();
  const int64_t part = std::min(step * part_, extent - part_);
  if (level == part_level()) return part;
  const Level& at = levels_[static_cast<size_t>(level)];
  return std::clamp<int64_t>(part / grain_ * grain_ - at.before, 0,
                             extent - at.length);
}

}  // namespace onnx_memopt::rewrite
