#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), defined_(graph.num_values(), false) {}

  absl::Status Run() {
    if (graph_.num_blocks() == 0) {
      return absl::InternalError("the graph has no main block");
    }
    return CheckBlock(kMainBlock);
  }

 private:
  std::string NodeName(NodeId id) const {
    return absl::StrCat("node \"", Printable(graph_.DisplayName(id)), "\" (",
                        Printable(graph_.node(id).op_type), ")");
  }

  std::string ValueName(ValueId id) const {
    return absl::StrCat("\"", Printable(graph_.value(id).name), "\"");
  }

  absl::Status Define(ValueId id) {
    if (Index(id) >= graph_.num_values()) {
      return absl::InternalError("a value id is out of range");
    }
    if (defined_[Index(id)]) {
      return absl::InternalError(
          absl::StrCat("tensor ", ValueName(id), " is defined twice"));
    }
    defined_[Index(id)] = true;
    in_scope_.push_back(id);
    return absl::OkStatus();
  }

  absl::Status CheckNode(BlockId block, NodeId id) {
    const Node& node = graph_.node(id);
    if (graph_.erased(id)) {
      return absl::InternalError(
          absl::StrCat(NodeName(id), " was erased but is in the schedule"));
    }
    if (node.block != block) {
      return absl::InternalError(
          absl::StrCat(NodeName(id), " is in the schedule of another block"));
    }
    for (ValueId operand : node.operands) {
      if (operand == kNoValue) continue;
      if (Index(operand) >= graph_.num_values() || !defined_[Index(operand)]) {
        return absl::InternalError(absl::StrCat(
            NodeName(id), ": operand ",
            Index(operand) < graph_.num_values() ? ValueName(operand) : "?",
            " is used before it is defined"));
      }
    }
    for (BlockId nested : node.blocks) {
      if (graph_.block(nested).owner != id) {
        return absl::InternalError(
            absl::StrCat(NodeName(id), " holds a block that it does not own"));
      }
      const size_t scope = in_scope_.size();
      RETURN_IF_ERROR(CheckBlock(nested));
      // What a nested block defines is not visible outside it.
      while (in_scope_.size() > scope) {
        defined_[Index(in_scope_.back())] = false;
        in_scope_.pop_back();
      }
    }
    for (ValueId result : node.results) {
      if (result != kNoValue) RETURN_IF_ERROR(Define(result));
    }
    return absl::OkStatus();
  }

  absl::Status CheckBlock(BlockId id) {
    const Block& block = graph_.block(id);
    for (ValueId value : block.params) RETURN_IF_ERROR(Define(value));
    for (ValueId value : block.initializers) RETURN_IF_ERROR(Define(value));
    for (NodeId node : block.nodes) RETURN_IF_ERROR(CheckNode(id, node));
    for (ValueId result : block.results) {
      if (result == kNoValue || !defined_[Index(result)]) {
        return absl::InternalError(absl::StrCat(
            "output ", result == kNoValue ? "\"\"" : ValueName(result),
            " of graph \"", Printable(block.name), "\" is not defined"));
      }
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::vector<ValueId> in_scope_;
};

}  // namespace

absl::Status Verify(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace onnx_memopt::ir
