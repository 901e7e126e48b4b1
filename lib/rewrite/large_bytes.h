// Bytes of weights that a pass makes, however many: beyond some megabytes they
// are in a file without a name, so that memory does not grow with the model.
//
//   LargeBytes bytes(&graph);
//   weight.bytes = bytes.Own(std::move(elements));  // as long as the graph
#ifndef ONNX_MEMOPT_LIB_REWRITE_LARGE_BYTES_H_
#define ONNX_MEMOPT_LIB_REWRITE_LARGE_BYTES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/support/scratch_file.h"

namespace onnx_memopt::rewrite {

class LargeBytes {
 public:
  explicit LargeBytes(ir::Graph* graph) : graph_(*graph) {}

  // Where no file can be had, or none that is large enough, they stay in
  // memory.
  absl::string_view Own(std::string bytes);

 private:
  void Open();

  ir::Graph& graph_;
  int64_t held_bytes_ = 0;
  bool is_opened_ = false;
  std::shared_ptr<ScratchFile> file_;  // owned by the graph, too; null: none
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_LARGE_BYTES_H_
