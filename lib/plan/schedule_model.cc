#include "plan/schedule_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"

namespace onnx_memopt::plan {

Lists::Lists(int32_t size, std::vector<std::pair<int32_t, int32_t>> pairs) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  first_.assign(static_cast<size_t>(size) + 1, 0);
  items_.reserve(pairs.size());
  for (const auto& [index, item] : pairs) {
    ++first_[index + 1];
    items_.push_back(item);
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

Model BuildModel(const ScheduleProblem& problem) {
  Model model;
  model.problem = &problem;
  model.num_nodes = static_cast<int32_t>(problem.nodes.size());
  model.alloc_bytes.assign(problem.nodes.size(), 0);
  model.dead_bytes.assign(problem.nodes.size(), 0);
  std::vector<std::pair<int32_t, int32_t>> edges;
  std::vector<std::pair<int32_t, int32_t>> reads;
  std::vector<std::pair<int32_t, int32_t>> results;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const ScheduleBuffer& buffer = problem.buffers[b];
    const bool kept = buffer.live_to_end || !buffer.readers.empty();
    if (buffer.producer == -1) {
      if (kept) model.initial_live += buffer.size_bytes;
    } else {
      model.alloc_bytes[buffer.producer] += buffer.size_bytes;
      if (kept) {
        results.emplace_back(buffer.producer, static_cast<int32_t>(b));
      } else {
        model.dead_bytes[buffer.producer] += buffer.size_bytes;
      }
    }
    for (int32_t reader : buffer.readers) {
      reads.emplace_back(reader, static_cast<int32_t>(b));
      if (buffer.producer != -1) edges.emplace_back(buffer.producer, reader);
    }
  }
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    for (int32_t before : problem.nodes[i].after) {
      edges.emplace_back(before, static_cast<int32_t>(i));
    }
  }
  model.results = Lists(model.num_nodes, std::move(results));
  model.reads = Lists(model.num_nodes, std::move(reads));
  model.succs = Lists(model.num_nodes, edges);
  for (auto& [before, after] : edges) std::swap(before, after);
  model.preds = Lists(model.num_nodes, std::move(edges));
  return model;
}

Replay::Replay(const Model& model) : model_(&model), live_(model.initial_live) {
  const std::vector<ScheduleBuffer>& buffers = model.problem->buffers;
  left_.reserve(buffers.size());
  for (const ScheduleBuffer& buffer : buffers) {
    left_.push_back(static_cast<int32_t>(buffer.readers.size()));
  }
  taken_at_.assign(buffers.size(), 0);
}

Effect Replay::Run(absl::Span<const int32_t> nodes) {
  const std::vector<ScheduleBuffer>& buffers = model_->problem->buffers;
  const int64_t before = live_;
  int64_t most = before;
  for (int32_t id : nodes) {
    const ScheduleNode& node = model_->problem->nodes[id];
    int64_t freed = model_->dead_bytes[id];
    for (int32_t b : model_->reads[id]) {
      if (--left_[b] == 0 && !buffers[b].live_to_end) {
        freed += buffers[b].size_bytes;
      }
    }
    int64_t shared = 0;
    if (!node.in_place.empty()) ++clock_;
    for (const auto& [operand, result] : node.in_place) {
      if (left_[operand] != 0 || buffers[operand].live_to_end ||
          taken_at_[operand] == clock_ || taken_at_[result] == clock_) {
        continue;
      }
      taken_at_[operand] = clock_;
      taken_at_[result] = clock_;
      shared += buffers[operand].size_bytes;
    }
    const int64_t alloc = model_->alloc_bytes[id];
    most = std::max(most, live_ + alloc - shared + node.extra_bytes);
    live_ += alloc - freed;
  }
  return {.hill = most - before, .net = live_ - before};
}

void Replay::Undo(absl::Span<const int32_t> nodes, Effect effect) {
  for (int32_t id : nodes) {
    for (int32_t b : model_->reads[id]) ++left_[b];
  }
  live_ -= effect.net;
}

Effect Replay::Peek(absl::Span<const int32_t> nodes) {
  const Effect effect = Run(nodes);
  Undo(nodes, effect);
  return effect;
}

}  // namespace onnx_memopt::plan
