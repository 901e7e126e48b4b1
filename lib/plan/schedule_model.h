// A checked schedule problem as flat arrays, and a replay of nodes that can be
// taken back: what every search works on.
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_MODEL_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_MODEL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"

namespace onnx_memopt::plan {

// Lists of int32_t, one for each index, in one array.
class Lists {
 public:
  Lists() : first_{0} {}
  // Sorted lists without duplicates: `pairs` are (index, item).
  Lists(int32_t size, std::vector<std::pair<int32_t, int32_t>> pairs);

  int32_t size() const { return static_cast<int32_t>(first_.size()) - 1; }
  int64_t total() const { return first_.back(); }
  absl::Span<const int32_t> operator[](int32_t i) const {
    return absl::MakeConstSpan(items_.data() + first_[i],
                               static_cast<size_t>(first_[i + 1] - first_[i]));
  }

 private:
  std::vector<int64_t> first_;
  std::vector<int32_t> items_;
};

struct Model {
  const ScheduleProblem* problem = nullptr;
  int32_t num_nodes = 0;
  Lists preds;
  Lists succs;
  Lists reads;    // the buffers that a node reads
  Lists results;  // the buffers that it produces and that anyone needs
  // Bytes a node allocates, and those of them that nobody reads.
  std::vector<int64_t> alloc_bytes;
  std::vector<int64_t> dead_bytes;
  int64_t initial_live = 0;
};

// Requires CheckProblem(problem). The model keeps a pointer to the problem.
Model BuildModel(const ScheduleProblem& problem);

// What running something does to the live bytes: relative to those before it,
// `hill` is the most during it, `net` is what stays after it.
struct Effect {
  int64_t hill = 0;
  int64_t net = 0;
};

// Live bytes while nodes run. Live bytes depend on the set of nodes that ran
// and not on their order, so nodes may be taken back in reverse.
class Replay {
 public:
  explicit Replay(const Model& model);

  int64_t live() const { return live_; }
  // Readers of a buffer that have not run.
  int32_t readers_left(int32_t buffer) const { return left_[buffer]; }

  // Runs nodes one after the other.
  Effect Run(absl::Span<const int32_t> nodes);
  // Takes back nodes that Run just ran, given its result.
  void Undo(absl::Span<const int32_t> nodes, Effect effect);
  Effect Peek(absl::Span<const int32_t> nodes);

 private:
  const Model* model_;
  std::vector<int32_t> left_;
  std::vector<int64_t> taken_at_;  // per buffer: the last clock_ it was taken
  int64_t clock_ = 0;
  int64_t live_ = 0;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_MODEL_H_
