// A subgraph that always runs, and that no runtime takes apart: the branch of
// an If whose condition is true, but computed from an empty sequence, which is
// never folded.
//
//   AlwaysBranch branch(builder, block);
//   BlockId body = branch.Add({result}, "name");   // fill its nodes and
//   results
//   ... schedule branch.condition_nodes(), then the producer of result ...
#ifndef ONNX_MEMOPT_REWRITE_ALWAYS_BRANCH_H_
#define ONNX_MEMOPT_REWRITE_ALWAYS_BRANCH_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::rewrite {

// An empty sequence of tensors.
ir::Type EmptySequenceType();

// True if the other branch can return an empty tensor of this type: a tensor of
// a number type whose rank is known.
bool CanBranchReturn(const ir::Type& type);

class AlwaysBranch {
 public:
  // Adds what the condition needs to `block`; names begin with `base`.
  AlwaysBranch(Builder& builder, ir::BlockId block, absl::string_view base);

  ir::ValueId sequence() const { return sequence_; }
  // In the order in which they have to run.
  const std::vector<ir::NodeId>& condition_nodes() const { return nodes_; }

  // An If that defines `results`, which exist already; its first branch is
  // returned, without nodes and results. Types are as CanBranchReturn says.
  ir::BlockId Add(absl::Span<const ir::ValueId> results,
                  absl::string_view name);

 private:
  void Fill(ir::BlockId block, const ir::Type& type);

  Builder& builder_;
  ir::BlockId block_;
  ir::ValueId sequence_;
  ir::ValueId condition_;
  std::vector<ir::NodeId> nodes_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_ALWAYS_BRANCH_H_
