// The whole planner: proofs first, then plans from the cheapest method to the
// dearest.
//
//   working set > budget          -> infeasible
//   an order that fits            -> optimal, nothing runs twice
//   few nodes                     -> exact search
//   a chain of blocks             -> dynamic programming over it: a seed
//   evictions along some orders   -> seeds
//   annealing from the seeds      -> rounds on all threads, each from the best
//                                    plan of the round before
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/recompute_anneal.h"
#include "plan/recompute_blocks.h"
#include "plan/recompute_chain.h"
#include "plan/recompute_clock.h"
#include "plan/recompute_evict.h"
#include "plan/recompute_keep.h"
#include "plan/recompute_model.h"
#include "plan/recompute_search.h"
#include "plan/recompute_state.h"

namespace onnx_memopt::plan {
namespace {

// Shares of the time after which a part of the work makes way for the next.
constexpr double kChainUntil = 0.9;
constexpr double kBoundUntil = 0.15;
constexpr double kChooseUntil = 0.2;
constexpr double kEvictUntil = 0.3;
constexpr double kKeepUntil = 0.6;
// Of many nodes a run of evictions takes long, and annealing needs the time.
constexpr double kEvictManyUntil = 0.2;

// Most blocks of a chain, in turn, and work in entries of the tables.
constexpr int32_t kMostBlocks[] = {1'200, 400, 128};
constexpr int64_t kChainWork = 300'000'000;
constexpr int32_t kChainFamily = 11;

// Searches for what to keep at the critical moment, and how many choices of
// each become seeds.
constexpr int kChooseRuns = 24;
constexpr size_t kKeptSets = 4;

// Rounds of the search over what goes first: the share of the work up to the
// end of each.
constexpr double kKeepRounds[] = {0.25, 0.6, 1};

// Rounds of annealing: first short ones from many seeds, because how good a run
// gets varies more with its start than with its length; then longer ones from
// the best of them.
constexpr int kExploreRounds = 8;
constexpr int kRefineRounds = 4;
constexpr double kExploreShare = 0.4;
constexpr int kSeedsPerFamily = 2;
// How hot the runs start, in turn.
constexpr double kExploreHot[] = {0.1, 0.3, 0.1, 1};
constexpr double kRefineHot[] = {0.03, 0.1, 0.01, 0.05};
// Above this many nodes a hot start would only destroy the seed: there are too
// few moves for each node to build it again.
constexpr int32_t kManyNodes = 3'000;
constexpr int32_t kMaxExactNodes = 31;
// Plans tried by the search over what goes first, times nodes, where nothing
// else limits it; and what one is worth in moves of the annealing.
constexpr int64_t kKeepWork = 8'000'000;
constexpr int64_t kMovesPerKeepTry = 300;
constexpr int32_t kKeepFamily = 10;
constexpr int32_t kKeepSourcesFamily = 12;

struct Candidate {
  std::vector<int32_t> sequence;
  std::string method;
  RecomputeReplay replay;
  int32_t family = 0;  // of seeds: how it was made
};

// Where a search over what goes first may start.
struct KeepStart {
  int64_t cost = 0;
  size_t order = 0;
  EvictionRule rule;
};

// Within the budget before over it, then the least cost, then the least peak.
bool Better(const Candidate& a, const Candidate& b, int64_t budget) {
  const int64_t excess_a = std::max<int64_t>(0, a.replay.peak - budget);
  const int64_t excess_b = std::max<int64_t>(0, b.replay.peak - budget);
  if (excess_a != excess_b) return excess_a < excess_b;
  if (a.replay.cost != b.replay.cost) return a.replay.cost < b.replay.cost;
  return a.replay.peak < b.replay.peak;
}

ScheduleProblem AsSchedule(const RecomputeModel& model) {
  ScheduleProblem problem;
  problem.nodes.resize(model.n);
  for (int32_t v = 0; v < model.n; ++v) {
    problem.buffers.push_back({.size_bytes = model.memory[v],
                               .producer = v,
                               .readers = model.users[v]});
  }
  return problem;
}

class Planner {
 public:
  Planner(const RecomputeProblem& problem, const RecomputeModel& model,
          const RecomputeOptions& options)
      : problem_(problem),
        model_(model),
        options_(options),
        clock_(options.time_limit_seconds) {}

  absl::StatusOr<RecomputeResult> Run() {
    result_.lower_bound = model_.base_cost;
    result_.working_set = FindWorkingSet(model_);
    if (result_.working_set.memory > options_.budget || options_.budget < 0) {
      return Infeasible();
    }
    if (model_.n == 0) return Finish();
    RETURN_IF_ERROR(TryOrders());
    if (Done()) return Finish();
    if (model_.n <= std::min(options_.exact_nodes, kMaxExactNodes)) {
      const ExactRecompute exact =
          SolveExactly(model_, options_.budget, options_.exact_states,
                       [this] { return clock_.Over(0.5); });
      if (exact.complete && exact.sequence.empty()) return Infeasible();
      if (exact.complete) {
        RETURN_IF_ERROR(Offer(exact.sequence, "exact"));
        result_.lower_bound = best_.replay.cost;
        return Finish();
      }
    }
    bound_ = FindCostBound(model_, options_.budget,
                           [this] { return clock_.Over(kBoundUntil); });
    result_.lower_bound = bound_.cost;
    if (options_.methods.chain) RETURN_IF_ERROR(TryChains());
    if (Done()) return Finish();
    if (options_.methods.eviction) RETURN_IF_ERROR(TryEvictions());
    Report();
    if (options_.methods.keep) RETURN_IF_ERROR(TryKeeping());
    if (options_.methods.anneal) RETURN_IF_ERROR(TryAnnealing());
    return Finish();
  }

 private:
  bool Found() const {
    return !best_.sequence.empty() && best_.replay.peak <= options_.budget;
  }
  bool Done() const {
    return Found() && best_.replay.cost <= result_.lower_bound;
  }

  RecomputeResult Infeasible() {
    result_.outcome = RecomputeOutcome::kInfeasible;
    result_.seconds = clock_.Seconds();
    return result_;
  }

  RecomputeResult Finish() {
    result_.outcome = Found() || model_.n == 0 ? RecomputeOutcome::kPlan
                                               : RecomputeOutcome::kNotFound;
    result_.sequence = best_.sequence;
    result_.cost = best_.replay.cost;
    result_.peak = best_.replay.peak;
    result_.method = best_.method;
    result_.optimal = result_.outcome == RecomputeOutcome::kPlan &&
                      best_.replay.cost <= result_.lower_bound;
    result_.seconds = clock_.Seconds();
    Report();
    return result_;
  }

  void Report() {
    if (!options_.on_progress) return;
    options_.on_progress({.found = Found(),
                          .cost = best_.replay.cost,
                          .lower_bound = result_.lower_bound,
                          .seconds = clock_.Seconds()});
  }

  // Takes the sequence if it is the best so far. What the planner itself makes
  // is valid; only its cost may be beyond 2^63, and then it is of no use.
  absl::Status Offer(std::vector<int32_t> sequence, const std::string& method,
                     int32_t family = 0) {
    const absl::StatusOr<RecomputeReplay> replay =
        ReplayRecompute(problem_, sequence);
    if (!replay.ok()) return absl::OkStatus();
    Candidate candidate = {std::move(sequence), method, *replay, family};
    if (!annealing_) seeds_.push_back(candidate);
    if (best_.sequence.empty() || Better(candidate, best_, options_.budget)) {
      best_ = std::move(candidate);
    }
    return absl::OkStatus();
  }

  absl::Status TryOrders() {
    orders_.push_back(model_.order);
    RETURN_IF_ERROR(Offer(model_.order, "order"));
    if (!options_.initial_sequence.empty()) {
      RETURN_IF_ERROR(
          ReplayRecompute(problem_, options_.initial_sequence).status());
      RETURN_IF_ERROR(Offer(options_.initial_sequence, "input"));
    }
    if (Done() || clock_.Over(0.05) || !options_.methods.schedule) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(
        ScheduleResult schedule,
        MinimizePeak(AsSchedule(model_),
                     {.initial_order = model_.order, .max_states = 20'000}));
    if (schedule.order == model_.order) return absl::OkStatus();
    RETURN_IF_ERROR(Offer(schedule.order, "order"));
    orders_.push_back(std::move(schedule.order));
    return absl::OkStatus();
  }

  // Chains along each order, with as many blocks as the work allows and with
  // fewer, which leaves finer units for memory.
  absl::Status TryChains() {
    const auto stop = [this] { return clock_.Over(kChainUntil); };
    for (const std::vector<int32_t>& order : orders_) {
      size_t last = 0;
      for (const int32_t most : kMostBlocks) {
        if (stop() || Done()) return absl::OkStatus();
        const std::vector<RecomputeBlock> blocks =
            FindBlocks(model_, order, most);
        if (blocks.size() == last) continue;
        last = blocks.size();
        for (std::vector<int32_t>& sequence :
             PlanChain(blocks, options_.budget, kChainWork, stop)) {
          RETURN_IF_ERROR(Offer(std::move(sequence), "chain", kChainFamily));
        }
      }
    }
    return absl::OkStatus();
  }

  int threads() const { return std::max(1, options_.threads); }

  // Calls work(0), work(1), ... work(count - 1), on all threads. What they do
  // must not depend on who is first.
  void OnThreads(int count, const std::function<void(int)>& work) const {
    const int used = std::min(threads(), count);
    const auto share = [&](int first) {
      for (int i = first; i < count; i += used) work(i);
    };
    std::vector<std::thread> pool;
    for (int t = 1; t < used; ++t) pool.emplace_back(share, t);
    share(0);
    for (std::thread& t : pool) t.join();
  }

  // What might go first when memory is short; nothing for the last.
  std::vector<std::vector<bool>> FirstSets() const {
    std::vector<std::vector<bool>> sets;
    if (!bound_.again.empty() && options_.methods.choices) {
      std::vector<std::vector<KeptChoice>> chosen(kChooseRuns);
      OnThreads(kChooseRuns, [&](int run) {
        if (clock_.Over(kChooseUntil)) return;
        chosen[run] =
            ChooseKept(model_, bound_.moment, bound_.again, kKeptSets,
                       options_.max_moves, options_.seed * 1'009 + run,
                       [this] { return clock_.Over(kChooseUntil); });
      });
      std::vector<KeptChoice> all;
      for (std::vector<KeptChoice>& some : chosen) {
        std::move(some.begin(), some.end(), std::back_inserter(all));
      }
      std::stable_sort(all.begin(), all.end(),
                       [](const KeptChoice& a, const KeptChoice& b) {
                         return a.cost < b.cost;
                       });
      double last = -1;
      for (KeptChoice& choice : all) {
        if (choice.cost == last || sets.size() == kKeptSets) continue;
        last = choice.cost;
        sets.push_back(std::move(choice.again));
      }
      sets.push_back(bound_.again);
    }
    sets.emplace_back();
    return sets;
  }

  absl::Status TryEvictions() {
    const std::vector<std::vector<bool>> first = FirstSets();
    std::vector<Evictor> evictors;
    evictors.reserve(orders_.size());
    for (const std::vector<int32_t>& order : orders_) {
      evictors.emplace_back(model_, order, options_.budget);
    }
    for (const std::vector<bool>& goes_first : first) {
      for (size_t order = 0; order < orders_.size(); ++order) {
        for (const double distance : {1.0, 0.0, 2.0}) {
          for (const int32_t neighbours : {16, 1}) {
            EvictionRule rule = {.distance_power = distance,
                                 .neighbours = neighbours,
                                 .goes_first = goes_first,
                                 .moment = bound_.moment.node};
            for (const bool eager : {false, true}) {
              if (eager && goes_first.empty()) continue;
              rule.eager = eager;
              RETURN_IF_ERROR(TryEviction(evictors[order], order, rule));
            }
            rule.eager = false;
            rule.keep_sources = true;
            RETURN_IF_ERROR(TryEviction(evictors[order], order, rule));
          }
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status TryEviction(Evictor& evictor, size_t order,
                           const EvictionRule& rule) {
    const double until = model_.n > kManyNodes ? kEvictManyUntil : kEvictUntil;
    const auto stop = [&] { return clock_.Over(until); };
    if (stop()) return absl::OkStatus();
    // The relaxed choice leads elsewhere than the whole ones.
    const int32_t family = (rule.goes_first.empty()           ? 1
                            : rule.goes_first == bound_.again ? 2
                                                              : 3) +
                           (rule.eager ? 3 : 0) +
                           (rule.keep_sources ? kKeepSourcesFamily : 0);
    if (!evictor.Run(rule, MaxRuns(), std::numeric_limits<double>::max(),
                     stop)) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Offer(evictor.sequence(), "greedy", family));
    if (seeds_.back().replay.peak <= options_.budget) {
      keep_starts_.push_back({seeds_.back().replay.cost, order, rule});
    }
    return absl::OkStatus();
  }

  int64_t MaxRuns() const { return int64_t{model_.n} * 8 + 1000; }

  // The search over what goes first, from the best evictions.
  absl::Status TryKeeping() {
    if (Done() || model_.n > kManyNodes || keep_starts_.empty()) {
      return absl::OkStatus();
    }
    std::stable_sort(
        keep_starts_.begin(), keep_starts_.end(),
        [](const KeepStart& a, const KeepStart& b) { return a.cost < b.cost; });
    const double begin = clock_.Seconds();
    double done = 0;
    for (size_t round = 0; round < std::size(kKeepRounds); ++round) {
      if (Done() || clock_.Over(kKeepUntil)) break;
      const double share = kKeepRounds[round] - done;
      done = kKeepRounds[round];
      RETURN_IF_ERROR(
          KeepRound(static_cast<int>(round), share,
                    begin + (clock_.limit() * kKeepUntil - begin) * done));
      Report();
    }
    return absl::OkStatus();
  }

  absl::Status KeepRound(int round, double share, double end_seconds) {
    const double begin = clock_.Seconds();
    const int64_t tries =
        clock_.limited() && options_.max_moves == 0 ? int64_t{1} << 50
        : options_.max_moves > 0 ? options_.max_moves / kMovesPerKeepTry
                                 : kKeepWork / model_.n;
    std::vector<KeepResult> results(threads());
    std::vector<KeepStart> starts;
    starts.reserve(threads());
    for (int t = 0; t < threads(); ++t) {
      starts.push_back(keep_starts_[t % keep_starts_.size()]);
    }
    OnThreads(threads(), [&](int thread) {
      KeepOptions keep = {
          .max_tries = static_cast<int64_t>(static_cast<double>(tries) * share),
          .seed = options_.seed * 1'000'033 +
                  static_cast<uint64_t>(round * threads() + thread),
          .hot = round == 0 ? 0.1 : 0.03};
      for (int32_t v : bound_.moment.ancestors) keep.choices.push_back(v);
      if (keep.choices.empty()) keep.choices = model_.order;
      if (clock_.limited()) {
        keep.time_share = [&] { return clock_.ShareOf(begin, end_seconds); };
      }
      keep.on_better = [&](absl::Span<const int32_t> sequence) {
        ShowFromThread(sequence);
      };
      results[thread] = SearchKept(model_, orders_[starts[thread].order],
                                   options_.budget, starts[thread].rule, keep);
    });
    for (int t = 0; t < threads(); ++t) {
      if (results[t].sequence.empty()) continue;
      RETURN_IF_ERROR(
          Offer(std::move(results[t].sequence), "keep", kKeepFamily));
      if (seeds_.back().replay.peak > options_.budget) continue;
      keep_starts_.push_back({seeds_.back().replay.cost, starts[t].order,
                              std::move(results[t].rule)});
    }
    std::stable_sort(
        keep_starts_.begin(), keep_starts_.end(),
        [](const KeepStart& a, const KeepStart& b) { return a.cost < b.cost; });
    return absl::OkStatus();
  }

  int64_t TotalMoves() const {
    if (options_.max_moves > 0) return options_.max_moves;
    if (clock_.limited()) return int64_t{1} << 50;
    return std::clamp<int64_t>(3'000'000'000 / std::max(1, model_.n), 200'000,
                               6'000'000);
  }

  absl::Status TryAnnealing() {
    const ScaledModel scaled = ScaledModel::Create(model_, options_.budget);
    PickSeeds();
    const int rounds =
        model_.n > kManyNodes ? 1 : kExploreRounds + kRefineRounds;
    double share_left = 1;
    for (int round = 0; round < rounds && !Done() && !clock_.Over(); ++round) {
      const double share = rounds == 1 ? 1
                           : round < kExploreRounds
                               ? kExploreShare / kExploreRounds
                               : (1 - kExploreShare) / kRefineRounds;
      RETURN_IF_ERROR(AnnealRound(scaled, round, share, share / share_left));
      share_left -= share;
      Report();
    }
    return absl::OkStatus();
  }

  // The best two of each family, the best first: seeds that differ are worth
  // more than seeds that are good.
  void PickSeeds() {
    annealing_ = true;
    std::stable_sort(seeds_.begin(), seeds_.end(),
                     [this](const Candidate& a, const Candidate& b) {
                       return Better(a, b, options_.budget);
                     });
    std::vector<Candidate> picked;
    for (Candidate& seed : seeds_) {
      int same = 0;
      bool known = false;
      for (const Candidate& other : picked) {
        same += other.family == seed.family ? 1 : 0;
        known = known || (other.replay.cost == seed.replay.cost &&
                          other.replay.peak == seed.replay.peak);
      }
      if (same < kSeedsPerFamily && !known) picked.push_back(std::move(seed));
    }
    seeds_ = std::move(picked);
  }

  // One run on each thread: of `share` of all moves, and in a part of the time
  // that is left.
  absl::Status AnnealRound(const ScaledModel& scaled, int round, double share,
                           double time_part) {
    const double started = clock_.Seconds();
    const double end = started + (clock_.limit() - started) * time_part;
    const auto moves =
        static_cast<int64_t>(static_cast<double>(TotalMoves()) * share);
    const bool explore = model_.n > kManyNodes || round < kExploreRounds;
    std::vector<AnnealResult> results(threads());
    const auto work = [&](int thread) {
      const int turn = round * threads() + thread;
      AnnealOptions anneal = {
          .max_moves = moves,
          .seed = options_.seed * 1'000'003 + static_cast<uint64_t>(turn),
          .hot = model_.n > kManyNodes ? 0.05
                 : explore ? kExploreHot[(turn + turn / seeds_.size()) %
                                         std::size(kExploreHot)]
                           : kRefineHot[turn % std::size(kRefineHot)],
          .lower_bound = LowerBoundFor(scaled)};
      if (clock_.limited()) {
        anneal.time_share = [&] { return clock_.ShareOf(started, end); };
      }
      anneal.on_better = [&](absl::Span<const int32_t> sequence) {
        ShowFromThread(sequence);
      };
      const Candidate& start = explore ? seeds_[turn % seeds_.size()] : best_;
      results[thread] = Anneal(scaled, start.sequence, anneal);
    };
    OnThreads(threads(), work);
    for (AnnealResult& r : results) {
      RETURN_IF_ERROR(Offer(std::move(r.sequence), "anneal"));
    }
    return absl::OkStatus();
  }

  // Annealing may end there. Scaled costs are rounded: then there is none.
  double LowerBoundFor(const ScaledModel& scaled) const {
    return scaled.exact_cost ? static_cast<double>(result_.lower_bound) : -1;
  }

  // For the progress only: the result must not depend on who comes first.
  void ShowFromThread(absl::Span<const int32_t> sequence) {
    if (!options_.on_progress) return;
    const std::scoped_lock lock(progress_mutex_);
    const absl::StatusOr<RecomputeReplay> replay =
        ReplayRecompute(problem_, sequence);
    if (!replay.ok() || replay->peak > options_.budget) return;
    if (Found() && replay->cost >= best_.replay.cost) return;
    if (shown_cost_ >= 0 && replay->cost >= shown_cost_) return;
    shown_cost_ = replay->cost;
    options_.on_progress({.found = true,
                          .cost = replay->cost,
                          .lower_bound = result_.lower_bound,
                          .seconds = clock_.Seconds()});
  }

  const RecomputeProblem& problem_;
  const RecomputeModel& model_;
  const RecomputeOptions& options_;
  Clock clock_;
  RecomputeResult result_;
  Candidate best_;
  std::vector<Candidate> seeds_;
  std::vector<std::vector<int32_t>> orders_;
  CostBound bound_;
  std::vector<KeepStart> keep_starts_;  // once sorted: the best first
  bool annealing_ = false;              // `seeds_` is complete
  std::mutex progress_mutex_;
  int64_t shown_cost_ = -1;
};

}  // namespace

absl::StatusOr<RecomputeResult> PlanRecompute(const RecomputeProblem& problem,
                                              const RecomputeOptions& options) {
  ASSIGN_OR_RETURN(const RecomputeModel model, RecomputeModel::Create(problem));
  return Planner(problem, model, options).Run();
}

absl::StatusOr<std::vector<RecomputeResult>> SweepRecompute(
    const RecomputeProblem& problem, absl::Span<const int64_t> budgets,
    const RecomputeOptions& options) {
  std::vector<size_t> ascending(budgets.size());
  for (size_t i = 0; i < ascending.size(); ++i) ascending[i] = i;
  std::stable_sort(ascending.begin(), ascending.end(),
                   [&](size_t a, size_t b) { return budgets[a] < budgets[b]; });
  std::vector<RecomputeResult> results(budgets.size());
  RecomputeOptions own = options;
  for (size_t i : ascending) {
    own.budget = budgets[i];
    ASSIGN_OR_RETURN(results[i], PlanRecompute(problem, own));
    if (results[i].outcome == RecomputeOutcome::kPlan) {
      own.initial_sequence = results[i].sequence;
    }
  }
  return results;
}

}  // namespace onnx_memopt::plan
