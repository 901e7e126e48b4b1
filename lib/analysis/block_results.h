// Which results of a node are the last values of its subgraph, and not copies.
//
//   for (size_t i = 0; i < ResultsFromBlocks(node); ++i) {
//     ir::ValueId inside = BlockResult(node, graph.block(body), i);
//   }
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_BLOCK_RESULTS_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_BLOCK_RESULTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// How many of a node's first results are the last values that its blocks
// return, not copies of them: all of an If's; of a loop's, what it carries.
inline size_t ResultsFromBlocks(const ir::Node& node) {
  if (node.op_type == "If") return node.results.size();
  if (node.op_type == "Loop") {
    return node.operands.size() > 2 ? node.operands.size() - 2 : 0;
  }
  if (node.op_type == "Scan") {
    const int64_t scanned = IntAttribute(node, "num_scan_inputs", 0);
    const auto operands = static_cast<int64_t>(node.operands.size());
    return static_cast<size_t>(
        std::clamp<int64_t>(operands - scanned, 0, operands));
  }
  return 0;
}

// What the block returns as the node's result `index`, one of the first
// ResultsFromBlocks; kNoValue if it has none. A loop returns its condition
// first.
inline ir::ValueId BlockResult(const ir::Node& node, const ir::Block& block,
                               size_t index) {
  const size_t at = index + (node.op_type == "Loop" ? 1 : 0);
  return at < block.results.size() ? block.results[at] : ir::kNoValue;
}

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_BLOCK_RESULTS_H_
