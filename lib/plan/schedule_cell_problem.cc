#include "plan/schedule_cell_problem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"
#include "plan/schedule_model.h"
#include "plan/schedule_units.h"

namespace onnx_memopt::plan {
namespace {

int32_t Find(absl::Span<const int32_t> sorted, int32_t item) {
  auto it = std::lower_bound(sorted.begin(), sorted.end(), item);
  if (it == sorted.end() || *it != item) return -1;
  return static_cast<int32_t>(it - sorted.begin());
}

}  // namespace

CellIndex::CellIndex(const Model& model, const UnitGraph& units,
                     absl::Span<const std::vector<int32_t>> cells)
    : cell_of(units.members.size()), local_of(units.members.size()) {
  for (size_t c = 0; c < cells.size(); ++c) {
    for (size_t i = 0; i < cells[c].size(); ++i) {
      cell_of[cells[c][i]] = static_cast<int32_t>(c);
      local_of[cells[c][i]] = static_cast<int32_t>(i);
    }
  }
  for (const ScheduleBuffer& buffer : model.problem->buffers) {
    int32_t last = -1;
    for (int32_t reader : buffer.readers) {
      last = std::max(last, cell_of[units.unit_of[reader]]);
    }
    last_cell.push_back(last);
  }
}

CellProblem::CellProblem(const Model& model, const UnitGraph& units,
                         const CellIndex& index,
                         absl::Span<const int32_t> cell) {
  FindEdges(units, index, cell);
  FindBuffers(model, units, index, cell);
  is_free_.resize(frees_.size());
  operand_taken_.assign(frees_.size(), 0);
  result_taken_.assign(num_results_, 0);
  constant_.assign(cell.size(), {false, Effect()});
  int32_t node = 0;
  for (int32_t unit = 0; unit < size(); ++unit) {
    bool known = true;
    int32_t free = node == 0 ? 0 : nodes_[node - 1].frees_end;
    node = nodes_end_[unit];
    for (; free < nodes_[node - 1].frees_end; ++free) {
      known = known && frees_[free].shared < 0;
    }
    if (known) constant_[unit] = {true, Evaluate(unit, nullptr)};
  }
}

void CellProblem::FindEdges(const UnitGraph& units, const CellIndex& index,
                            absl::Span<const int32_t> cell) {
  const auto n = static_cast<int32_t>(cell.size());
  std::vector<std::pair<int32_t, int32_t>> forward;
  std::vector<std::pair<int32_t, int32_t>> backward;
  for (int32_t local = 0; local < n; ++local) {
    for (int32_t pred : units.preds[cell[local]]) {
      if (index.cell_of[pred] != index.cell_of[cell[0]]) continue;
      forward.emplace_back(index.local_of[pred], local);
      backward.emplace_back(local, index.local_of[pred]);
    }
  }
  succs_ = Lists(n, std::move(forward));
  preds_ = Lists(n, std::move(backward));
}

void CellProblem::FindBuffers(const Model& model, const UnitGraph& units,
                              const CellIndex& index,
                              absl::Span<const int32_t> cell) {
  const std::vector<ScheduleBuffer>& buffers = model.problem->buffers;
  const int32_t cell_number = index.cell_of[cell[0]];
  // A buffer can be freed here if none of its readers are in later cells.
  std::vector<std::pair<int32_t, int32_t>> reads;  // buffer, unit
  for (size_t i = 0; i < cell.size(); ++i) {
    for (int32_t node : units.members[cell[i]]) {
      for (int32_t b : model.reads[node]) {
        if (buffers[b].live_to_end || index.last_cell[b] != cell_number) {
          continue;
        }
        reads.emplace_back(b, static_cast<int32_t>(i));
      }
      for (int32_t b : model.results[node]) {
        if (buffers[b].live_to_end || index.last_cell[b] > cell_number) {
          buffers_.push_back(
              {buffers[b].size_bytes, static_cast<int32_t>(i), true, {}});
        }
      }
    }
  }
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  std::vector<int32_t> freeable;  // ascending; parallel to shared_
  for (size_t begin = 0, end = 0; begin < reads.size(); begin = end) {
    const int32_t b = reads[begin].first;
    CellBuffer buffer = {buffers[b].size_bytes, -1, false, {}};
    if (buffers[b].producer >= 0) {
      const int32_t unit = units.unit_of[buffers[b].producer];
      if (index.cell_of[unit] == cell_number) {
        buffer.producer = index.local_of[unit];
      }
    }
    std::vector<Word> words;
    for (end = begin; end < reads.size() && reads[end].first == b; ++end) {
      const int32_t unit = reads[end].second;
      if (words.empty() || words.back().index != unit / 64) {
        words.push_back({unit / 64, 0});
      }
      words.back().bits |= uint64_t{1} << (unit % 64);
      if (unit != buffer.producer) buffer.readers.push_back(unit);
    }
    freeable.push_back(b);
    // One reader frees it in every order: no need to ask.
    if (end - begin == 1) words.clear();
    shared_.push_back(std::move(words));
    if (!buffer.readers.empty()) buffers_.push_back(std::move(buffer));
  }
  for (int32_t unit : cell) AddUnit(model, units.members[unit], freeable);
}

void CellProblem::AddUnit(const Model& model, absl::Span<const int32_t> members,
                          absl::Span<const int32_t> freeable) {
  // Of several members that read a buffer, the last one may free it.
  std::vector<std::pair<int32_t, int32_t>> last;  // buffer, member
  for (size_t i = 0; i < members.size(); ++i) {
    for (int32_t b : model.reads[members[i]]) {
      if (Find(freeable, b) >= 0) last.emplace_back(b, static_cast<int32_t>(i));
    }
  }
  std::sort(last.begin(), last.end());
  std::vector<std::pair<int32_t, int32_t>> frees;  // member, buffer
  for (size_t i = 0; i < last.size(); ++i) {
    if (i + 1 < last.size() && last[i + 1].first == last[i].first) continue;
    frees.emplace_back(last[i].second, last[i].first);
  }
  std::sort(frees.begin(), frees.end());
  auto next = frees.begin();
  std::vector<int32_t> freed;
  for (size_t i = 0; i < members.size(); ++i) {
    const size_t first_free = frees_.size();
    freed.clear();
    for (; next != frees.end() && next->first == static_cast<int32_t>(i);
         ++next) {
      const int32_t b = next->second;
      const int32_t local = Find(freeable, b);
      frees_.push_back({model.problem->buffers[b].size_bytes,
                        shared_[local].empty() ? -1 : local});
      freed.push_back(b);
    }
    AddPairs(model, members[i], first_free, freed);
    nodes_.push_back(
        {.alloc_bytes = model.alloc_bytes[members[i]],
         .extra_bytes = model.problem->nodes[members[i]].extra_bytes,
         .dead_bytes = model.dead_bytes[members[i]],
         .frees_end = static_cast<int32_t>(frees_.size()),
         .pairs_end = static_cast<int32_t>(pairs_.size())});
  }
  nodes_end_.push_back(static_cast<int32_t>(nodes_.size()));
}

void CellProblem::AddPairs(const Model& model, int32_t node, size_t first_free,
                           absl::Span<const int32_t> freed) {
  const std::vector<InPlacePair>& pairs = model.problem->nodes[node].in_place;
  std::vector<int32_t> results;
  results.reserve(pairs.size());
  for (const InPlacePair& pair : pairs) results.push_back(pair.result_buffer);
  std::sort(results.begin(), results.end());
  results.erase(std::unique(results.begin(), results.end()), results.end());
  for (const auto& [operand, result] : pairs) {
    const int32_t free = Find(freed, operand);
    if (free < 0) continue;
    pairs_.push_back({static_cast<int32_t>(first_free) + free,
                      num_results_ + Find(results, result)});
  }
  num_results_ += static_cast<int32_t>(results.size());
}

bool CellProblem::IsLast(int32_t shared, int32_t unit,
                         const uint64_t* done) const {
  for (const Word& word : shared_[shared]) {
    uint64_t waiting = word.bits & ~done[word.index];
    if (word.index == unit / 64) waiting &= ~(uint64_t{1} << (unit % 64));
    if (waiting != 0) return false;
  }
  return true;
}

Effect CellProblem::Evaluate(int32_t unit, const uint64_t* done) {
  if (constant_[unit].first) return constant_[unit].second;
  const int32_t first_node = unit == 0 ? 0 : nodes_end_[unit - 1];
  int32_t free = first_node == 0 ? 0 : nodes_[first_node - 1].frees_end;
  int32_t pair = first_node == 0 ? 0 : nodes_[first_node - 1].pairs_end;
  int64_t live = 0;
  int64_t most = 0;
  for (int32_t i = first_node; i < nodes_end_[unit]; ++i) {
    const Node& node = nodes_[i];
    int64_t freed = node.dead_bytes;
    for (; free < node.frees_end; ++free) {
      const Free& f = frees_[free];
      is_free_[free] = f.shared < 0 || IsLast(f.shared, unit, done);
      if (is_free_[free]) freed += f.size_bytes;
    }
    int64_t shared_bytes = 0;
    if (pair < node.pairs_end) ++clock_;
    for (; pair < node.pairs_end; ++pair) {
      const Pair& p = pairs_[pair];
      if (!is_free_[p.free] || operand_taken_[p.free] == clock_ ||
          result_taken_[p.result] == clock_) {
        continue;
      }
      operand_taken_[p.free] = clock_;
      result_taken_[p.result] = clock_;
      shared_bytes += frees_[p.free].size_bytes;
    }
    most = std::max(most,
                    live + node.alloc_bytes - shared_bytes + node.extra_bytes);
    live += node.alloc_bytes - freed;
  }
  return {.hill = most, .net = live};
}

int64_t CellProblem::Peak(absl::Span<const int32_t> order) {
  std::vector<uint64_t> done(num_words(), 0);
  int64_t live = 0;
  int64_t peak = std::numeric_limits<int64_t>::min();
  for (int32_t unit : order) {
    const Effect effect = Evaluate(unit, done.data());
    peak = std::max(peak, live + effect.hill);
    live += effect.net;
    Insert(done.data(), unit);
  }
  return peak;
}

std::vector<int64_t> CellProblem::Signature() const {
  std::vector<int64_t> text = {size()};
  for (int32_t unit = 0; unit < size(); ++unit) {
    text.push_back(nodes_end_[unit]);
    text.push_back(static_cast<int64_t>(preds_[unit].size()));
    text.insert(text.end(), preds_[unit].begin(), preds_[unit].end());
  }
  for (const Node& node : nodes_) {
    text.insert(text.end(), {node.alloc_bytes, node.extra_bytes,
                             node.dead_bytes, node.frees_end, node.pairs_end});
  }
  for (const Free& free : frees_) {
    text.insert(text.end(), {free.size_bytes, free.shared});
  }
  for (const Pair& pair : pairs_) {
    text.insert(text.end(), {pair.free, pair.result});
  }
  for (const std::vector<Word>& words : shared_) {
    text.push_back(static_cast<int64_t>(words.size()));
    for (const Word& word : words) {
      text.insert(text.end(), {word.index, static_cast<int64_t>(word.bits)});
    }
  }
  // The readers of these follow from what is above only in part: the bound
  // needs them all.
  for (const CellBuffer& buffer : buffers_) {
    text.insert(text.end(),
                {buffer.size_bytes, buffer.producer, buffer.survives ? 1 : 0,
                 static_cast<int64_t>(buffer.readers.size())});
    text.insert(text.end(), buffer.readers.begin(), buffer.readers.end());
  }
  return text;
}

}  // namespace onnx_memopt::plan
