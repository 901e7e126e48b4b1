// The forward pass of a training step, as checkpoints see it: where it can be
// cut, what crosses a cut, what the backward pass reads.
#ifndef ONNX_MEMOPT_LIB_GRAD_SEGMENTS_H_
#define ONNX_MEMOPT_LIB_GRAD_SEGMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/op_info.h"

namespace onnx_memopt::grad {

class ForwardPass {
 public:
  static absl::StatusOr<ForwardPass> Compute(const ir::Graph& graph,
                                             const StepInfo& step);

  // Nodes of the main block, in its order.
  const std::vector<ir::NodeId>& order() const { return order_; }
  const std::vector<ir::NodeId>& backward() const { return backward_; }

  // Positions 0 = c0 < c1 < ... = order().size(), of about as much memory
  // between each two, moved to where little crosses.
  std::vector<size_t> Cuts(int segments) const;
  // At most so many segments make a difference.
  int MaxSegments() const;

  // Read by a node of the forward pass at position `at` or later, or a result
  // of the step.
  bool ReadAfter(ir::ValueId value, size_t at) const {
    return last_read_[ir::Index(value)] >= static_cast<int64_t>(at);
  }
  bool ReadByBackward(ir::ValueId value) const {
    return by_backward_[ir::Index(value)];
  }
  // 0 for a view of another value.
  int64_t OwnBytes(ir::ValueId value) const { return bytes_[ir::Index(value)]; }
  // Can run a second time with the same results, and is cheap enough.
  bool CanRepeat(ir::NodeId node, ir::RecomputeCost most) const;
  // A model of the time that a node takes: its arithmetic, or its traffic.
  double Seconds(ir::NodeId node) const { return seconds_[ir::Index(node)]; }
  double TotalSeconds() const { return total_seconds_; }

 private:
  // No cut between a multiplication by a scalar and its last reader. Such a
  // copy is not worth keeping; and ONNX Runtime's FastGeluFusion takes 0.5 * x
  // away from other readers, as the backward pass would be one.
  void ForbidScaledCopies();

  const ir::Graph* graph_ = nullptr;
  std::vector<ir::NodeId> order_;
  std::vector<ir::NodeId> backward_;
  std::vector<int64_t> last_read_;
  std::vector<bool> by_backward_;
  std::vector<int64_t> bytes_;
  std::vector<double> seconds_;  // by node
  double total_seconds_ = 0;
  // By position: bytes of values that are made before and read at or after it.
  std::vector<int64_t> crossing_;
  std::vector<bool> forbidden_;  // by position
  // By position: bytes saved for backward that are made before it.
  std::vector<int64_t> saved_before_;
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_SEGMENTS_H_
