// Brute force over the orders of a block's nodes.
//
//   std::optional<int64_t> lowest =
//       EveryOrder(&graph, ir::kMainBlock, 1000).Lowest(peak_of_graph);
#ifndef ONNX_MEMOPT_TEST_SUPPORT_EVERY_ORDER_H_
#define ONNX_MEMOPT_TEST_SUPPORT_EVERY_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::testing {

// Tries every order of one block's nodes.
class EveryOrder {
 public:
  EveryOrder(ir::Graph* graph, ir::BlockId block, int max_orders)
      : graph_(*graph),
        block_(block),
        nodes_(graph->block(block).nodes),
        orders_left_(max_orders) {
    for (const ir::NodeId id : nodes_) {
      std::set<ir::ValueId> reads;
      CollectReads(id, &reads);
      reads.erase(ir::kNoValue);  // an operand that is left out
      std::vector<size_t> before;
      for (size_t i = 0; i < nodes_.size(); ++i) {
        for (const ir::ValueId result : graph_.node(nodes_[i]).results) {
          if (nodes_[i] != id && reads.contains(result)) before.push_back(i);
        }
      }
      before_.push_back(std::move(before));
    }
  }

  // The lowest that `judge` says of the graph in an order; nullopt if there are
  // too many orders.
  std::optional<int64_t> Lowest(
      std::function<int64_t(const ir::Graph& graph)> judge) {
    judge_ = std::move(judge);
    std::vector<ir::NodeId> order;
    std::vector<bool> done(nodes_.size());
    Extend(&order, &done);
    graph_.mutable_block(block_).nodes = nodes_;
    if (orders_left_ < 0) return std::nullopt;
    return lowest_;
  }

 private:
  void CollectReads(ir::NodeId id, std::set<ir::ValueId>* reads) const {
    const ir::Node& node = graph_.node(id);
    reads->insert(node.operands.begin(), node.operands.end());
    for (const ir::BlockId block : node.blocks) {
      const auto& results = graph_.block(block).results;
      reads->insert(results.begin(), results.end());
      for (const ir::NodeId nested : graph_.block(block).nodes) {
        CollectReads(nested, reads);
      }
    }
  }

  void Extend(std::vector<ir::NodeId>* order, std::vector<bool>* done) {
    if (orders_left_ < 0) return;
    if (order->size() == nodes_.size()) {
      --orders_left_;
      graph_.mutable_block(block_).nodes = *order;
      lowest_ = std::min(lowest_, judge_(graph_));
      return;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const bool ready =
          !(*done)[i] && std::all_of(before_[i].begin(), before_[i].end(),
                                     [&](size_t j) { return (*done)[j]; });
      if (!ready) continue;
      (*done)[i] = true;
      order->push_back(nodes_[i]);
      Extend(order, done);
      order->pop_back();
      (*done)[i] = false;
    }
  }

  ir::Graph& graph_;
  ir::BlockId block_;
  const std::vector<ir::NodeId> nodes_;
  std::vector<std::vector<size_t>> before_;
  int orders_left_;
  std::function<int64_t(const ir::Graph& graph)> judge_;
  int64_t lowest_ = std::numeric_limits<int64_t>::max();
};

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_SUPPORT_EVERY_ORDER_H_
