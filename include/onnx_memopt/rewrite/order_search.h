// In which order to write the nodes of a block, so that ONNX Runtime takes
// little in the order in which it then runs them.
//
// The runtime walks the graph depth first from its leaves, and goes into the
// producers of a node by their places in the file, the last one first. So a
// file cannot ask for any order, but for which branch comes first at each join
// (and which leaf first):
//
//      big   small        file: .. small big join    runs: big small join
//         \  /            file: .. big small join    runs: small big join
//         join
//
// Not all of these choices go together: a producer stands behind what it reads,
// and has one place for all its readers.
//
//   FileOrders orders(graph, block, nodes, after);
//   FileOrderFound found = FindFileOrder(orders, {input, planned}, options,
//   {});
//   ... nodes[found.order[i]] ...
#ifndef ONNX_MEMOPT_REWRITE_ORDER_SEARCH_H_
#define ONNX_MEMOPT_REWRITE_ORDER_SEARCH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// Nodes of a block's schedule (a call counts as one), and the steps that the
// runtime makes of them.
class FileOrders {
 public:
  // `after`: for each node, those that must stand before it. `block` must
  // outlive this.
  FileOrders(const ir::Graph& graph, const analysis::RuntimeBlock& block,
             absl::Span<const ir::NodeId> nodes,
             std::vector<std::vector<int32_t>> after);

  size_t size() const { return after_.size(); }
  const analysis::RuntimeBlock& block() const { return block_; }
  const std::vector<std::vector<int32_t>>& after() const { return after_; }
  bool has_calls() const { return has_calls_; }

  // The ranks of the steps, for RunOrder, if the nodes stand in this order.
  std::vector<int32_t> Ranks(absl::Span<const int32_t> order) const;

  // The node whose place in the file the walk looks at where it comes to this
  // step; -1 for steps in the body of a call, which have fixed places.
  int32_t NodeOf(int32_t step) const {
    return node_of_[static_cast<size_t>(step)];
  }

  // An order in which, of each pair, the first node stands before the second:
  // all of them if that can be, which `all` says. A node is in at most one pair
  // as the first, and in one as the second. What pairs leave open is as in
  // `like`.
  using Pair = std::pair<int32_t, int32_t>;
  std::vector<int32_t> WithPairs(absl::Span<const Pair> pairs,
                                 absl::Span<const int32_t> like,
                                 bool* all) const;
  // The pairs that make the runtime walk as it does.
  std::vector<Pair> PairsOf(const analysis::DepthFirstWalk& walk) const;

 private:
  const analysis::RuntimeBlock& block_;
  std::vector<std::vector<int32_t>> after_;
  std::vector<int32_t> num_readers_;  // by node
  std::vector<int32_t> node_of_;      // by step
  std::vector<int32_t> outer_node_;   // by step; of a call's steps, the call
  std::vector<int32_t> depth_;        // by step; of calls around it
  bool has_calls_ = false;
};

struct FileOrderOptions {
  // Try all that can be written if at most so many orders have to be run.
  int64_t max_orders = 4000;
  // A bound on the work, in steps walked: not in time, so that the result is
  // the same everywhere.
  int64_t max_steps = 2'000'000;
};

struct FileOrderFound {
  std::vector<int32_t> order;  // of nodes
  int64_t bare_bytes = 0;      // the runtime's bare peak with it
  bool optimal = false;        // all orders that can be written were tried
};

// `candidates`: orders to begin with, the first of which is the present one. An
// order is only taken if its default peaks are not above those of the first.
FileOrderFound FindFileOrder(const FileOrders& orders,
                             absl::Span<const std::vector<int32_t>> candidates,
                             const analysis::RuntimeOptions& runtime,
                             const FileOrderOptions& options);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_ORDER_SEARCH_H_
