#include "plan/recompute_state.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/support/checked_math.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {
namespace {

// Sums over all nodes stay below this; times 2^12 they are exact in a double.
constexpr double kMaxSum = 1.0 * (int64_t{1} << 41);

// A power of two, 1 if it can be: divided by it, the values' sum is small.
int64_t Divisor(absl::Span<const int64_t> values) {
  double sum = 0;
  for (int64_t value : values) sum += static_cast<double>(value);
  int64_t divisor = 1;
  while (sum / static_cast<double>(divisor) > kMaxSum) divisor *= 2;
  return divisor;
}

}  // namespace

ScaledModel ScaledModel::Create(const RecomputeModel& model, int64_t budget) {
  ScaledModel scaled;
  scaled.model = &model;
  const int64_t by_memory = Divisor(model.memory);
  const int64_t by_cost = Divisor(model.cost);
  for (int32_t v = 0; v < model.n; ++v) {
    scaled.memory.push_back(
        static_cast<double>(CeilDiv(model.memory[v], by_memory)));
    scaled.cost.push_back(static_cast<double>(model.cost[v]) /
                          static_cast<double>(by_cost));
    if (by_cost > 1) scaled.cost.back() = std::round(scaled.cost.back());
  }
  scaled.exact_cost = by_cost == 1;
  scaled.budget = static_cast<double>(FloorDiv(budget, by_memory));
  return scaled;
}

RecomputeState::RecomputeState(const ScaledModel& scaled,
                               absl::Span<const int32_t> sequence)
    : scaled_(&scaled), model_(scaled.model) {
  runs_.resize(model_->n);
  repeated_at_.assign(model_->n, -1);
  live_.assign(sequence.size(), 0);
  for (int32_t v : sequence) {
    const int32_t run = NewRun(v);
    pos_[run] = static_cast<int32_t>(seq_.size());
    for (int32_t u : model_->inputs[v]) last_[runs_[u].back()] = run;
    seq_.push_back(run);
    runs_[v].push_back(run);
    cost_ += scaled.cost[v];
  }
  for (int32_t run : seq_) {
    AddRange(pos_[run], pos_[last_[run]] + 1, scaled.memory[node_[run]]);
  }
  for (int32_t v = 0; v < model_->n; ++v) NoteRepeated(v);
}

int32_t RecomputeState::NewRun(int32_t node) {
  int32_t run = 0;
  if (free_.empty()) {
    run = static_cast<int32_t>(node_.size());
    node_.push_back(node);
    pos_.push_back(0);
    last_.push_back(run);
  } else {
    run = free_.back();
    free_.pop_back();
    node_[run] = node;
    last_[run] = run;
  }
  return run;
}

void RecomputeState::NoteRepeated(int32_t node) {
  const bool repeats = runs_[node].size() > 1;
  int32_t& at = repeated_at_[node];
  if (repeats == (at >= 0)) return;
  if (repeats) {
    at = static_cast<int32_t>(repeated_.size());
    repeated_.push_back(node);
    return;
  }
  repeated_[at] = repeated_.back();
  repeated_at_[repeated_.back()] = at;
  repeated_.pop_back();
  at = -1;
}

void RecomputeState::AddRange(int32_t begin, int32_t end, double memory) {
  // Four steps at a time, in the compiler's vectors. Sums are of whole numbers:
  // their order does not matter.
  using Lanes __attribute__((vector_size(32))) = double;
  const double budget = scaled_->budget;
  const Lanes budgets = {budget, budget, budget, budget};
  Lanes changes = {0, 0, 0, 0};
  double* live = live_.data();
  int32_t p = begin;
  for (; p + 4 <= end; p += 4) {
    Lanes before;
    std::memcpy(&before, live + p, sizeof(before));
    const Lanes after = before + memory;
    std::memcpy(live + p, &after, sizeof(after));
    changes += (after > budgets ? after : budgets) -
               (before > budgets ? before : budgets);
  }
  double change = changes[0] + changes[1] + changes[2] + changes[3];
  for (; p < end; ++p) {
    const double before = live[p];
    live[p] = before + memory;
    change += std::max(live[p], budget) - std::max(before, budget);
  }
  overflow_ += change;
}

int32_t RecomputeState::LatestRun(int32_t node, int32_t position) const {
  const std::vector<int32_t>& runs = runs_[node];
  auto index = static_cast<int32_t>(runs.size()) - 1;
  while (index >= 0 && pos_[runs[index]] >= position) --index;
  return index;
}

int32_t RecomputeState::LastUseBefore(int32_t node, int32_t index,
                                      int32_t position) const {
  const int32_t own = run_position(node, index);
  if (index + 1 < num_runs(node)) {
    position = std::min(position, run_position(node, index + 1));
  }
  int32_t last = own;
  for (int32_t w : model_->users[node]) {
    const int32_t latest = LatestRun(w, position);
    if (latest >= 0) last = std::max(last, run_position(w, latest));
  }
  return last;
}

int32_t RecomputeState::FirstUseFrom(int32_t node, int32_t index,
                                     int32_t position) const {
  const int32_t end = last_use(node, index);
  int32_t first = -1;
  for (int32_t w : model_->users[node]) {
    for (int32_t run : runs_[w]) {
      const int32_t p = pos_[run];
      if (p < position || p > end) continue;
      if (first < 0 || p < first) first = p;
      break;
    }
  }
  return first;
}

bool RecomputeState::CanInsert(int32_t node, int32_t position) const {
  for (int32_t u : model_->inputs[node]) {
    if (pos_[runs_[u].front()] >= position) return false;
  }
  return true;
}

bool RecomputeState::CanRemove(int32_t position) const {
  const int32_t run = seq_[position];
  const std::vector<int32_t>& runs = runs_[node_[run]];
  return runs.size() > 1 && (runs.front() != run || last_[run] == run);
}

void RecomputeState::DoInsert(int32_t node, int32_t position) {
  const std::vector<int32_t>& inputs = model_->inputs[node];
  const double memory = scaled_->memory[node];
  const int32_t run = NewRun(node);
  const int32_t previous = LatestRun(node, position);
  // The use of the previous value before here, by run: positions will shift.
  int32_t previous_last = -1;
  int32_t taken = run;  // what reads the new value last
  if (previous >= 0) {
    const int32_t r = runs_[node][previous];
    if (pos_[last_[r]] >= position) {
      taken = last_[r];
      previous_last = seq_[LastUseBefore(node, previous, position)];
    }
  }
  double across = 0;
  if (position < length()) {
    across = live_[position] - scaled_->memory[node_[seq_[position]]];
  }
  seq_.insert(seq_.begin() + position, run);
  live_.insert(live_.begin() + position, across);
  overflow_ += Excess(across);
  for (auto p = static_cast<size_t>(position); p < seq_.size(); ++p) {
    pos_[seq_[p]] = static_cast<int32_t>(p);
  }
  for (int32_t u : inputs) {
    const int32_t r = runs_[u][LatestRun(u, position)];
    const int32_t end = pos_[last_[r]];
    if (end > position) continue;
    AddRange(end + 1, position + 1, scaled_->memory[u]);
    last_[r] = run;
  }
  if (previous_last >= 0) {
    const int32_t r = runs_[node][previous];
    AddRange(pos_[previous_last] + 1, position, -memory);
    last_[r] = previous_last;
    last_[run] = taken;
  } else {
    AddRange(position, position + 1, memory);
  }
  runs_[node].insert(runs_[node].begin() + previous + 1, run);
  cost_ += scaled_->cost[node];
  NoteRepeated(node);
}

void RecomputeState::DoRemove(int32_t position) {
  const int32_t run = seq_[position];
  const int32_t node = node_[run];
  const double memory = scaled_->memory[node];
  std::vector<int32_t>& runs = runs_[node];
  const auto index = static_cast<int32_t>(
      std::find(runs.begin(), runs.end(), run) - runs.begin());
  if (last_[run] != run) {
    assert(index > 0 && "a value that is read has no other run before it");
    const int32_t r = runs[index - 1];
    AddRange(pos_[last_[r]] + 1, position, memory);
    last_[r] = last_[run];
  }
  for (int32_t u : model_->inputs[node]) {
    const int32_t i = LatestRun(u, position);
    const int32_t r = runs_[u][i];
    if (last_[r] != run) continue;
    const int32_t end = LastUseBefore(u, i, position);
    AddRange(end + 1, position, -scaled_->memory[u]);
    last_[r] = seq_[end];
  }
  overflow_ -= Excess(live_[position]);
  seq_.erase(seq_.begin() + position);
  live_.erase(live_.begin() + position);
  for (auto p = static_cast<size_t>(position); p < seq_.size(); ++p) {
    pos_[seq_[p]] = static_cast<int32_t>(p);
  }
  runs.erase(runs.begin() + index);
  free_.push_back(run);
  cost_ -= scaled_->cost[node];
  NoteRepeated(node);
}

void RecomputeState::Insert(int32_t node, int32_t position) {
  assert(CanInsert(node, position) && "an input is not there yet");
  DoInsert(node, position);
  journal_.push_back({node, position, /*inserted=*/true});
}

void RecomputeState::Remove(int32_t position) {
  assert(CanRemove(position) && "the run is needed");
  journal_.push_back({node_at(position), position, /*inserted=*/false});
  DoRemove(position);
}

void RecomputeState::RemoveUseless(size_t mark) {
  // Removals are appended to the journal, so that what they cause is seen too.
  for (size_t i = mark; i < journal_.size(); ++i) {
    const int32_t node = journal_[i].node;
    const auto clean = [this](int32_t v) {
      for (auto k = static_cast<int32_t>(runs_[v].size()) - 1; k >= 0; --k) {
        if (runs_[v].size() < 2) return;
        const int32_t run = runs_[v][k];
        if (last_[run] == run) Remove(pos_[run]);
      }
    };
    clean(node);
    for (int32_t u : model_->inputs[node]) clean(u);
  }
}

void RecomputeState::Undo(size_t mark) {
  while (journal_.size() > mark) {
    const Change change = journal_.back();
    journal_.pop_back();
    if (change.inserted) {
      DoRemove(change.position);
    } else {
      DoInsert(change.node, change.position);
    }
  }
}

std::vector<int32_t> RecomputeState::Sequence() const {
  std::vector<int32_t> sequence;
  sequence.reserve(seq_.size());
  for (int32_t run : seq_) sequence.push_back(node_[run]);
  return sequence;
}

}  // namespace onnx_memopt::plan
