// Adds nodes, weights and subgraphs to a graph: names, bytes and types in one
// place, so that a pass reads like the graph it builds.
//
//   Builder builder(&graph);
//   ValueId axes = builder.Int64s(kMainBlock, "axes", {0});
//   ValueId y = builder.Op(kMainBlock, "Unsqueeze", {x, axes}, type_of_y, "y");
//   nodes.push_back(graph.value(y).producer);  // schedule it
//
// A new node is in no schedule until it is put there.
#ifndef ONNX_MEMOPT_REWRITE_BUILDER_H_
#define ONNX_MEMOPT_REWRITE_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

class Builder {
 public:
  // Names of the graph are taken; new ones never repeat one, in any block.
  explicit Builder(ir::Graph* graph);

  ir::Graph& graph() { return *graph_; }
  // The version of ONNX's own operators that the model imports.
  int opset() const { return opset_; }

  // `base`, or `base` with a number where that is taken; taken from now on.
  std::string UniqueName(absl::string_view base);

  // An initializer of `block`: int64 of shape [values.size()].
  ir::ValueId Int64s(ir::BlockId block, absl::string_view base,
                     absl::Span<const int64_t> values);
  // The same of shape [].
  ir::ValueId Int64(ir::BlockId block, absl::string_view base, int64_t value);
  // The same of shape [values.size(), 1].
  ir::ValueId Int64Column(ir::BlockId block, absl::string_view base,
                          absl::Span<const int64_t> values);

  // A scalar of type float, double, float16 or bfloat16.
  ir::ValueId Real(ir::BlockId block, absl::string_view base,
                   ir::ElementType element, double value);
  // The same of these dims, row-major.
  ir::ValueId Reals(ir::BlockId block, absl::string_view base,
                    ir::ElementType element, absl::Span<const int64_t> dims,
                    absl::Span<const double> values);
  // An initializer of any type from its little-endian bytes.
  ir::ValueId Tensor(ir::BlockId block, absl::string_view base,
                     ir::ElementType element, absl::Span<const int64_t> dims,
                     std::string bytes);
  // The same of bytes that live as long as the graph.
  ir::ValueId OwnedTensor(ir::BlockId block, absl::string_view base,
                          ir::ElementType element,
                          absl::Span<const int64_t> dims,
                          absl::string_view bytes);

  // A node of one result, which is named after `base`.
  ir::ValueId Op(ir::BlockId block, absl::string_view op_type,
                 absl::Span<const ir::ValueId> operands, ir::Type type,
                 absl::string_view base,
                 std::vector<ir::Attribute> attributes = {});
  // A node whose results exist already and are made its own.
  ir::NodeId Node(ir::BlockId block, absl::string_view op_type,
                  absl::Span<const ir::ValueId> operands,
                  absl::Span<const ir::ValueId> results, absl::string_view name,
                  std::vector<ir::Attribute> attributes = {});

  // A value that no node defines yet, or a parameter of a block.
  ir::ValueId Value(ir::BlockId block, ir::Type type, absl::string_view base,
                    ir::ValueKind kind = ir::ValueKind::kResult);

  // An empty subgraph of `owner`.
  ir::BlockId Subgraph(ir::NodeId owner, absl::string_view attribute_name,
                       absl::string_view name);

 private:
  ir::ValueId Weight(ir::BlockId block, absl::string_view base,
                     absl::Span<const int64_t> dims,
                     absl::Span<const int64_t> values);

  ir::Graph* graph_;
  int opset_ = 0;
  absl::flat_hash_set<std::string> names_;
};

// kFailedPrecondition, with the reason, unless the model imports ONNX's
// operators in a version that has all of what passes build (Slice with
// operands, Scan without a batch dimension, sequences), and its types are those
// of the model, not of sizes that were given for it.
absl::Status CheckCanBuild(const ir::Graph& graph);
// True if all of these take tensors of this type, in every version and runtime.
bool CanBuildWith(ir::ElementType type);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_BUILDER_H_
