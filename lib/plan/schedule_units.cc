#include "plan/schedule_units.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"
#include "plan/schedule_model.h"

namespace onnx_memopt::plan {
namespace {

// What is known of a unit's effect in every order.
struct Profile {
  bool constant = false;  // `effect` holds in every order
  Effect effect;
  int64_t min_hill = 0;
  int64_t min_drop = 0;  // least of hill - net
};

Profile Append(const Profile& first, const Profile& then) {
  Profile both;
  both.constant = first.constant && then.constant;
  both.effect.hill =
      std::max(first.effect.hill, first.effect.net + then.effect.hill);
  both.effect.net = first.effect.net + then.effect.net;
  both.min_hill = first.constant ? std::max(first.effect.hill,
                                            first.effect.net + then.min_hill)
                                 : first.min_hill;
  both.min_drop = then.constant ? std::max(first.min_drop - then.effect.net,
                                           then.effect.hill - then.effect.net)
                                : then.min_drop;
  return both;
}

Profile ProfileOf(const Model& model, int32_t id, Replay& start) {
  const ScheduleNode& node = model.problem->nodes[id];
  Profile profile;
  profile.constant = true;
  for (int32_t b : model.reads[id]) {
    const ScheduleBuffer& buffer = model.problem->buffers[b];
    if (buffer.readers.size() > 1 && !buffer.live_to_end) {
      profile.constant = false;
    }
  }
  // At the start a node frees exactly what it alone reads.
  profile.effect = start.Peek(absl::MakeConstSpan(&id, 1));
  if (profile.constant) {
    profile.min_hill = profile.effect.hill;
    profile.min_drop = profile.effect.hill - profile.effect.net;
    return profile;
  }
  int64_t alloc = model.alloc_bytes[id];
  for (const InPlacePair& pair : node.in_place) {
    // A result named twice is taken off twice: still a lower bound.
    alloc -= model.problem->buffers[pair.result_buffer].size_bytes;
    if (alloc <= 0) break;
  }
  profile.min_hill = std::max<int64_t>(alloc, 0) + node.extra_bytes;
  profile.min_drop = node.extra_bytes + model.dead_bytes[id];
  return profile;
}

class Gluer {
 public:
  Gluer(const Model& model, absl::Span<const int32_t> order)
      : model_(model), order_(order), run_of_(order.size(), -1) {}

  UnitGraph Glue() {
    GlueEarly();
    GlueLate();
    return Number();
  }

 private:
  // First the "early" rule alone makes runs of nodes, numbered in topological
  // order: all of a run's predecessors are predecessors of its first node.
  void GlueEarly() {
    Replay start(model_);
    for (int32_t node : order_) {
      const Profile profile = ProfileOf(model_, node, start);
      const int32_t run = OnlyRunBefore(node);
      if (run >= 0 && profile.constant && profile.effect.net <= 0 &&
          profile.effect.hill <= profiles_[run].min_drop) {
        runs_[run].push_back(node);
        profiles_[run] = Append(profiles_[run], profile);
        run_of_[node] = run;
        continue;
      }
      run_of_[node] = static_cast<int32_t>(runs_.size());
      runs_.push_back({node});
      profiles_.push_back(profile);
    }
  }

  // -1 if there is none, or several.
  int32_t OnlyRunBefore(int32_t node) const {
    int32_t run = -1;
    for (int32_t pred : model_.preds[node]) {
      if (run >= 0 && run_of_[pred] != run) return -1;
      run = run_of_[pred];
    }
    return run;
  }

  // Then the "late" rule joins runs into groups, from the last run on. A group
  // is known by its last run, its root; runs are linked in the order to run.
  void GlueLate() {
    const auto n = static_cast<int32_t>(runs_.size());
    parent_.resize(n);
    head_.resize(n);
    next_.assign(n, -1);
    only_succ_.assign(n, -1);
    for (int32_t run = n - 1; run >= 0; --run) {
      parent_[run] = run;
      head_[run] = run;
      only_succ_[run] = OnlyGroupAfter(run);
      // What comes in front of a group may let the group join the next one.
      for (int32_t group = run; only_succ_[group] >= 0;) {
        const int32_t after = Root(only_succ_[group]);
        const Profile& profile = profiles_[group];
        if (!profile.constant || profile.effect.net < 0 ||
            profile.effect.hill >
                profile.effect.net + profiles_[after].min_hill) {
          break;
        }
        profiles_[after] = Append(profile, profiles_[after]);
        next_[group] = head_[after];
        head_[after] = head_[group];
        parent_[group] = after;
        group = after;
      }
    }
  }

  int32_t OnlyGroupAfter(int32_t run) {
    int32_t group = -1;
    for (int32_t node : runs_[run]) {
      for (int32_t succ : model_.succs[node]) {
        if (run_of_[succ] == run) continue;
        const int32_t other = Root(run_of_[succ]);
        if (group >= 0 && other != group) return -1;
        group = other;
      }
    }
    return group;
  }

  int32_t Root(int32_t run) {
    while (parent_[run] != run) {
      parent_[run] = parent_[parent_[run]];
      run = parent_[run];
    }
    return run;
  }

  // Groups in topological order, and among those that are ready by number:
  // close to the input order.
  UnitGraph Number() {
    const auto n = static_cast<int32_t>(runs_.size());
    std::vector<std::pair<int32_t, int32_t>> edges;
    for (int32_t node = 0; node < model_.num_nodes; ++node) {
      const int32_t from = Root(run_of_[node]);
      for (int32_t succ : model_.succs[node]) {
        const int32_t to = Root(run_of_[succ]);
        if (from != to) edges.emplace_back(from, to);
      }
    }
    const Lists succs(n, std::move(edges));
    std::vector<int32_t> waits(n, 0);
    for (int32_t run = 0; run < n; ++run) {
      for (int32_t succ : succs[run]) ++waits[succ];
    }
    std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
    for (int32_t run = 0; run < n; ++run) {
      if (parent_[run] == run && waits[run] == 0) ready.push(run);
    }
    UnitGraph units;
    units.unit_of.resize(model_.num_nodes);
    std::vector<int32_t> number(n, -1);
    std::vector<int32_t> roots;
    while (!ready.empty()) {
      const int32_t root = ready.top();
      ready.pop();
      number[root] = units.size();
      roots.push_back(root);
      std::vector<int32_t> members;
      for (int32_t run = head_[root];; run = next_[run]) {
        members.insert(members.end(), runs_[run].begin(), runs_[run].end());
        if (run == root) break;
      }
      for (int32_t node : members) units.unit_of[node] = number[root];
      units.members.push_back(std::move(members));
      for (int32_t succ : succs[root]) {
        if (--waits[succ] == 0) ready.push(succ);
      }
    }
    std::vector<std::pair<int32_t, int32_t>> forward;
    std::vector<std::pair<int32_t, int32_t>> backward;
    for (int32_t root : roots) {
      for (int32_t succ : succs[root]) {
        forward.emplace_back(number[root], number[succ]);
        backward.emplace_back(number[succ], number[root]);
      }
    }
    units.succs = Lists(units.size(), std::move(forward));
    units.preds = Lists(units.size(), std::move(backward));
    units.floating.resize(units.members.size());
    for (int32_t unit = 0; unit < units.size(); ++unit) {
      units.floating[unit] = Floats(units, roots, unit);
    }
    return units;
  }

  bool Floats(const UnitGraph& units, absl::Span<const int32_t> roots,
              int32_t unit) const {
    const Profile& profile = profiles_[roots[unit]];
    if (!units.preds[unit].empty() || units.succs[unit].empty() ||
        !profile.constant || profile.effect.net < 0) {
      return false;
    }
    return std::all_of(
        units.succs[unit].begin(), units.succs[unit].end(), [&](int32_t succ) {
          return profile.effect.hill <=
                 profile.effect.net + profiles_[roots[succ]].min_hill;
        });
  }

  const Model& model_;
  absl::Span<const int32_t> order_;
  std::vector<int32_t> run_of_;  // per node
  std::vector<std::vector<int32_t>> runs_;
  std::vector<Profile> profiles_;  // per run; of a group, at its root
  std::vector<int32_t> parent_;
  std::vector<int32_t> head_;  // of a root: the group's first run
  std::vector<int32_t> next_;  // the run that follows in the group
  std::vector<int32_t> only_succ_;
};

}  // namespace

UnitGraph GlueUnits(const Model& model, absl::Span<const int32_t> order) {
  return Gluer(model, order).Glue();
}

}  // namespace onnx_memopt::plan
