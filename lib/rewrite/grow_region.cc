#include "onnx_memopt/rewrite/grow_region.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <utility>

#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/region_windows.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Dim;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::SplitWay;
using ir::ValueId;

constexpr int64_t kMaxDivisor = 1 << 16;
constexpr int64_t kRandomExtent = 6;

// True if the parts of each operand make up its axis, as those of the results
// do: a Slice that reads the first half of its operand does not.
bool UsesWholeAxes(const ir::Graph& graph, const Node& node,
                   const SplitWay& way) {
  for (size_t i = 0; i < way.operands.size(); ++i) {
    const ir::OperandFlow& flow = way.operands[i];
    if (flow.axis < 0) continue;
    const auto& shape = graph.value(node.operands[i]).type.shape;
    if (!shape.has_value() || !(*shape)[flow.axis].has_value()) return false;
    const std::optional<Dim> operand = Mul(*(*shape)[flow.axis], flow.den);
    const std::optional<Dim> result = Mul(way.extent, flow.num);
    if (!operand.has_value() || !result.has_value() || *operand != *result) {
      return false;
    }
  }
  return true;
}

// A part of a weight is not a weight: the runtime could not lay it out when the
// model is loaded. Parts of scales and biases cost nothing.
bool SplitsWeight(const ir::Graph& graph, const Node& node,
                  const SplitWay& way) {
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i] == kNoValue || way.operands[i].axis < 0) continue;
    const ir::Value& value = graph.value(node.operands[i]);
    if (value.kind != ir::ValueKind::kInitializer) continue;
    if (graph.weight(value.weight).size_bytes > kSmallWeightBytes ||
        (i == 1 && node.info->recompute == ir::RecomputeCost::kExpensive)) {
      return true;
    }
  }
  return false;
}

class Grower {
 public:
  Grower(const BlockFlow& flow, int begin, int end)
      : flow_(flow), graph_(flow.graph()), begin_(begin), end_(end) {}

  std::optional<SplitPlan> Run(int seed, const SplitWay& way) {
    Assign(seed, &way);
    while (!queue_.empty()) {
      const int position = queue_.front();
      queue_.pop_front();
      GrowToProducers(position);
      GrowToUsers(position);
    }
    if (!MakeConvex(seed)) return std::nullopt;
    KeepConnected(seed);
    SplitPlan plan;
    plan.block = flow_.block();
    std::vector<int> positions;
    for (const auto& entry : ways_) positions.push_back(entry.first);
    std::sort(positions.begin(), positions.end());
    for (int position : positions) {
      plan.nodes.push_back({flow_.node(position), *ways_[position]});
    }
    return plan;
  }

 private:
  void Assign(int position, const SplitWay* way) {
    ways_[position] = way;
    queue_.push_back(position);
  }

  // Along which axis the region makes it; -1: it does not.
  int AxisOf(ValueId value) const {
    const int producer = flow_.producer(value);
    if (producer < 0) return -1;
    const auto it = ways_.find(producer);
    if (it == ways_.end()) return -1;
    return ResultAxis(graph_.node(flow_.node(producer)), *it->second, value);
  }

  static int ResultAxis(const Node& node, const SplitWay& way, ValueId value) {
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (node.results[r] == value) return way.result_axes[r];
    }
    return -1;
  }

  // True if the node split by `way` agrees with what the region has already.
  bool Fits(int position, const SplitWay& way) const {
    const Node& node = graph_.node(flow_.node(position));
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == kNoValue) continue;
      const int made = AxisOf(node.operands[i]);
      if (made >= 0 && made != way.operands[i].axis) return false;
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (node.results[r] == kNoValue) continue;
      if (way.result_axes[r] < 0) return false;
      for (int user : flow_.users(node.results[r])) {
        const auto it = ways_.find(user);
        if (it == ways_.end()) continue;
        const Node& reader = graph_.node(flow_.node(user));
        for (size_t i = 0; i < reader.operands.size(); ++i) {
          if (reader.operands[i] == node.results[r] &&
              it->second->operands[i].axis != way.result_axes[r]) {
            return false;
          }
        }
      }
    }
    return true;
  }

  bool IsCandidate(int position) const {
    return position >= begin_ && position < end_ && !ways_.contains(position);
  }

  void GrowToProducers(int position) {
    const Node& node = graph_.node(flow_.node(position));
    const SplitWay& way = *ways_[position];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == kNoValue || way.operands[i].axis < 0) continue;
      const int producer = flow_.producer(node.operands[i]);
      if (producer < 0 || !IsCandidate(producer)) continue;
      const Node& maker = graph_.node(flow_.node(producer));
      for (const SplitWay& candidate : flow_.ways(producer)) {
        if (ResultAxis(maker, candidate, node.operands[i]) ==
                way.operands[i].axis &&
            Fits(producer, candidate)) {
          Assign(producer, &candidate);
          break;
        }
      }
    }
  }

  void GrowToUsers(int position) {
    const Node& node = graph_.node(flow_.node(position));
    for (size_t r = 0; r < node.results.size(); ++r) {
      if (node.results[r] == kNoValue) continue;
      for (int user : flow_.users(node.results[r])) {
        if (!IsCandidate(user)) continue;
        for (const SplitWay& candidate : flow_.ways(user)) {
          // Fits compares the axis of each operand that the region makes.
          if (Fits(user, candidate)) {
            Assign(user, &candidate);
            break;
          }
        }
      }
    }
  }

  // Takes out nodes until no path leaves the region and comes back. False if
  // the seed would have to go.
  bool MakeConvex(int seed) {
    while (true) {
      // Outside nodes that read, perhaps through others, what the region makes.
      llvm::DenseSet<int> downstream;
      int leaving = -1;
      int last = -1;
      for (const auto& entry : ways_) last = std::max(last, entry.first);
      int first = last;
      for (const auto& entry : ways_) first = std::min(first, entry.first);
      for (int p = first; p <= last && leaving < 0; ++p) {
        const bool inside = ways_.contains(p);
        for (ValueId value : flow_.uses(p)) {
          const int producer = flow_.producer(value);
          if (producer < 0) continue;
          const bool outside = downstream.contains(producer);
          if (!inside && (outside || ways_.contains(producer))) {
            downstream.insert(p);
            break;
          }
          if (inside && outside) {
            leaving = producer;
            break;
          }
        }
      }
      if (leaving < 0) return true;
      // All that leads to it goes, or, if the seed does, all that comes of it.
      llvm::DenseSet<int> above;
      CollectAbove(leaving, &above);
      if (!above.contains(seed)) {
        for (int position : above) ways_.erase(position);
        continue;
      }
      llvm::DenseSet<int> below;
      CollectBelow(leaving, last, &below);
      if (below.contains(seed)) return false;
      bool removed = false;
      for (int position : below) removed = ways_.erase(position) || removed;
      if (!removed) return false;
    }
  }

  void CollectAbove(int from, llvm::DenseSet<int>* above) const {
    std::vector<int> pending = {from};
    while (!pending.empty()) {
      const int position = pending.back();
      pending.pop_back();
      for (ValueId value : flow_.uses(position)) {
        const int producer = flow_.producer(value);
        if (producer >= 0 && above->insert(producer).second) {
          pending.push_back(producer);
        }
      }
    }
  }

  void CollectBelow(int from, int last, llvm::DenseSet<int>* below) const {
    below->insert(from);
    for (int p = from + 1; p <= last; ++p) {
      for (ValueId value : flow_.uses(p)) {
        const int producer = flow_.producer(value);
        if (producer >= 0 && below->contains(producer)) {
          below->insert(p);
          break;
        }
      }
    }
  }

  // Leaves what hangs together with the seed by something that is split.
  void KeepConnected(int seed) {
    llvm::DenseSet<int> reached;
    std::vector<int> pending = {seed};
    reached.insert(seed);
    const auto reach = [&](int position) {
      if (position >= 0 && ways_.contains(position) &&
          reached.insert(position).second) {
        pending.push_back(position);
      }
    };
    while (!pending.empty()) {
      const int position = pending.back();
      pending.pop_back();
      const Node& node = graph_.node(flow_.node(position));
      for (ValueId operand : node.operands) {
        if (operand != kNoValue) reach(flow_.producer(operand));
      }
      for (ValueId result : node.results) {
        if (result == kNoValue) continue;
        for (int user : flow_.users(result)) reach(user);
      }
    }
    std::vector<int> gone;
    for (const auto& entry : ways_) {
      if (!reached.contains(entry.first)) gone.push_back(entry.first);
    }
    for (int position : gone) ways_.erase(position);
  }

  const BlockFlow& flow_;
  const ir::Graph& graph_;
  const int begin_;
  const int end_;
  llvm::DenseMap<int, const SplitWay*> ways_;  // by position
  std::deque<int> queue_;
};

}  // namespace

BlockFlow::BlockFlow(const ir::Graph& graph, ir::BlockId block)
    : graph_(graph), block_(block), nodes_(graph.block(block).nodes) {
  uses_.resize(nodes_.size());
  ways_.resize(nodes_.size());
  for (size_t p = 0; p < nodes_.size(); ++p) {
    position_[nodes_[p]] = static_cast<int>(p);
    ir::CollectUses(graph, nodes_[p], &uses_[p]);
    for (ValueId value : uses_[p]) users_[value].push_back(static_cast<int>(p));
  }
}

int BlockFlow::position(NodeId node) const {
  const auto it = position_.find(node);
  return it == position_.end() ? -1 : it->second;
}

int BlockFlow::producer(ValueId value) const {
  if (value == kNoValue) return -1;
  const NodeId producer = graph_.value(value).producer;
  return producer == ir::kNoNode ? -1 : position(producer);
}

const std::vector<int>& BlockFlow::users(ValueId value) const {
  static const auto* const kNone = new std::vector<int>;
  const auto it = users_.find(value);
  return it == users_.end() ? *kNone : it->second;
}

const std::vector<SplitWay>& BlockFlow::ways(int position) const {
  auto& ways = ways_[static_cast<size_t>(position)];
  if (!ways.has_value()) {
    ways.emplace();
    const Node& node = graph_.node(nodes_[static_cast<size_t>(position)]);
    // Inference of ONNX 1.23 gives the fourth result of Attention no columns in
    // a subgraph, and a body that has one does not load.
    const bool misread = node.op_type == "Attention" && node.results.size() > 3;
    if (!node.is_call && node.blocks.empty() && !misread) {
      *ways = SplitWays(graph_, nodes_[static_cast<size_t>(position)]);
      std::erase_if(*ways, [&](const SplitWay& way) {
        return !CanSplit(way) ||
               (!way.windowed && !UsesWholeAxes(graph_, node, way)) ||
               SplitsWeight(graph_, node, way);
      });
    }
  }
  return *ways;
}

std::optional<SplitPlan> GrowRegion(const BlockFlow& flow, int seed,
                                    const SplitWay& way, int begin, int end) {
  if (!CanSplit(way) || seed < begin || seed >= end) return std::nullopt;
  return Grower(flow, begin, end).Run(seed, way);
}

std::vector<Dim> DivisorsOf(const SplitPlan& plan) {
  if (NeedsWindows(plan)) return {};
  int64_t common = 0;
  std::vector<Dim> symbolic;
  for (const SplitNode& split : plan.nodes) {
    const std::optional<Dim> units =
        DivideExact(split.way.extent, split.way.grain);
    if (!units.has_value()) return {};
    if (units->is_constant()) {
      common = std::gcd(common, units->constant());
    } else if (std::find(symbolic.begin(), symbolic.end(), *units) ==
               symbolic.end()) {
      symbolic.push_back(*units);
    }
  }
  if (!symbolic.empty()) {
    // A number that is not known can only be had one by one: the items of the
    // batch where others have [batch * seq] rows.
    if (common != 0) return {};
    for (const Dim& parts : symbolic) {
      if (std::all_of(symbolic.begin(), symbolic.end(), [&](const Dim& units) {
            return DivideExact(units, parts).has_value();
          })) {
        return {parts};
      }
    }
    return {};
  }
  std::vector<Dim> counts;
  for (int64_t n = 2; n <= std::min(common, kMaxDivisor); ++n) {
    if (common % n == 0) counts.emplace_back(n);
  }
  return counts;
}

std::optional<SplitPlan> RandomRegion(const ir::Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  // Not a distribution of the library, which may differ between libraries.
  const auto below = [&](size_t n) { return static_cast<int>(random() % n); };
  const BlockFlow flow(graph, ir::kMainBlock);
  std::vector<int> candidates;
  for (int p = 0; p < flow.size(); ++p) {
    if (!flow.ways(p).empty()) candidates.push_back(p);
  }
  if (candidates.empty()) return std::nullopt;
  const int at = candidates[static_cast<size_t>(below(candidates.size()))];
  const auto& ways = flow.ways(at);
  const SplitWay& way = ways[static_cast<size_t>(below(ways.size()))];
  const int begin = at - below(static_cast<size_t>(at) + 1);
  const int end = at + 1 + below(static_cast<size_t>(flow.size() - at));
  std::optional<SplitPlan> plan = GrowRegion(flow, at, way, begin, end);
  if (!plan.has_value()) return std::nullopt;
  const std::vector<Dim> counts = DivisorsOf(*plan);
  if (!counts.empty() && below(3) != 0) {
    plan->parts = counts[static_cast<size_t>(below(counts.size()))];
    return plan;
  }
  const absl::StatusOr<RegionWindows> windows =
      RegionWindows::Find(graph, *plan);
  if (!windows.ok()) return std::nullopt;
  // Parts of an extent with a name are as large as tests make it.
  const int64_t extent = windows->extent().is_constant()
                             ? windows->extent().constant()
                             : kRandomExtent * windows->grain();
  const int64_t units = (extent - 1) / windows->grain();
  if (units < 1) return std::nullopt;
  plan->part = windows->grain() *
               (1 + below(static_cast<size_t>(std::min(units, kMaxDivisor))));
  return plan;
}

}  // namespace onnx_memopt::rewrite
