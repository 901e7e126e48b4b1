#include "onnx_memopt/rewrite/inline_calls.h"

#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

class Inliner {
 public:
  explicit Inliner(Graph* graph) : graph_(*graph), builder_(graph) {}

  InlineResult Run() {
    CollectOpsets();
    std::vector<BlockId> pending{ir::kMainBlock};
    while (!pending.empty()) {
      const BlockId block = pending.back();
      pending.pop_back();
      InlineIn(block);
      for (NodeId id : graph_.block(block).nodes) {
        if (graph_.node(id).is_call) continue;
        pending.insert(pending.end(), graph_.node(id).blocks.begin(),
                       graph_.node(id).blocks.end());
      }
    }
    return std::move(result_);
  }

 private:
  // Versions of operators that the model itself imports, as far as it uses
  // them. A body has imports of its own.
  void CollectOpsets() {
    for (BlockId block : BlocksOutsideCalls(graph_)) {
      for (NodeId id : graph_.block(block).nodes) {
        const Node& node = graph_.node(id);
        opsets_.emplace(node.domain, node.opset);
      }
    }
  }

  void InlineIn(BlockId block) {
    std::vector<NodeId> schedule;
    // Bodies hold calls: what is still to be looked at, last first.
    std::vector<NodeId> rest(graph_.block(block).nodes.rbegin(),
                             graph_.block(block).nodes.rend());
    while (!rest.empty()) {
      const NodeId id = rest.back();
      rest.pop_back();
      if (!graph_.node(id).is_call) {
        schedule.push_back(id);
        continue;
      }
      const std::string why = WhyNot(id);
      if (!why.empty()) {
        result_.refused.push_back(absl::StrCat(
            "call \"", Printable(graph_.DisplayName(id)), "\": ", why));
        schedule.push_back(id);
        continue;
      }
      ++result_.inlined;
      const BlockId body = graph_.node(id).blocks.front();
      const std::vector<NodeId> nodes = graph_.block(body).nodes;
      Adopt(id, body, block);
      rest.insert(rest.end(), nodes.rbegin(), nodes.rend());
      // The call is gone; its body is empty now.
      graph_.mutable_block(body).nodes.clear();
      graph_.EraseNodes(block, {id});
    }
    graph_.mutable_block(block).nodes = std::move(schedule);
  }

  // "" if the call can be replaced by its body. Recursive: calls are nested no
  // deeper than the importer allows.
  std::string WhyNot(NodeId call) const {
    std::set<ValueId> missing(graph_.node(call).results.begin(),
                              graph_.node(call).results.end());
    missing.erase(ir::kNoValue);
    std::vector<BlockId> pending{graph_.node(call).blocks.front()};
    while (!pending.empty()) {
      const BlockId block = pending.back();
      pending.pop_back();
      for (NodeId id : graph_.block(block).nodes) {
        const Node& node = graph_.node(id);
        for (ValueId result : node.results) missing.erase(result);
        const auto opset = opsets_.find(node.domain);
        // Functions have no version that counts.
        if (!node.is_call &&
            (opset == opsets_.end() || opset->second != node.opset)) {
          return absl::StrCat(
              "its body has version ", node.opset, " of the operators of \"",
              node.domain.empty() ? "ai.onnx" : Printable(node.domain), "\"");
        }
        for (const ir::Attribute& attribute : node.attributes) {
          if (!CanWrite(attribute)) {
            return absl::StrCat("attribute \"", Printable(attribute.name),
                                "\" in its body is of a kind that cannot be "
                                "written anew");
          }
        }
        // A call in it would be written anew, and the IR does not say which
        // overload of a function it calls: it has to go too.
        if (node.is_call) {
          const std::string why = WhyNot(id);
          if (!why.empty()) return why;
          continue;
        }
        pending.insert(pending.end(), node.blocks.begin(), node.blocks.end());
      }
    }
    return missing.empty() ? "" : "a result of it is not computed in its body";
  }

  bool CanWrite(const ir::Attribute& attribute) const {
    if (std::holds_alternative<ir::OpaqueAttribute>(attribute.value)) {
      return false;
    }
    const auto* id = std::get_if<ir::WeightId>(&attribute.value);
    if (id == nullptr) return true;
    const ir::Weight& weight = graph_.weight(*id);
    return weight.element != ir::ElementType::kString &&
           weight.storage != ir::WeightStorage::kSparse;
  }

  // What is in the body is of `block` from now on, and made by a pass.
  void Adopt(NodeId call, BlockId body, BlockId block) {
    const std::string prefix = graph_.DisplayName(call);
    const std::set<ValueId> results(graph_.node(call).results.begin(),
                                    graph_.node(call).results.end());
    const auto rename = [&](ValueId id) {
      if (id == ir::kNoValue || results.contains(id)) return;
      ir::Value& value = graph_.mutable_value(id);
      value.name = builder_.UniqueName(absl::StrCat(prefix, "/", value.name));
      value.source_block = ir::kNoBlock;
    };
    std::vector<BlockId> pending{body};
    while (!pending.empty()) {
      const BlockId inner = pending.back();
      pending.pop_back();
      const bool is_body = inner == body;
      if (!is_body) graph_.mutable_block(inner).from_source = false;
      for (ValueId param : graph_.block(inner).params) rename(param);
      for (ValueId weight : graph_.block(inner).initializers) rename(weight);
      for (NodeId id : graph_.block(inner).nodes) {
        Node& node = graph_.mutable_node(id);
        if (is_body) node.block = block;
        node.ForgetSource();
        node.name = builder_.UniqueName(absl::StrCat(
            prefix, "/", node.name.empty() ? node.op_type : node.name));
        for (ValueId result : node.results) {
          rename(result);
          if (result == ir::kNoValue) continue;
          ir::Value& value = graph_.mutable_value(result);
          value.producer = id;
          if (is_body) value.block = block;
        }
        if (node.is_call) continue;
        pending.insert(pending.end(), node.blocks.begin(), node.blocks.end());
      }
    }
  }

  Graph& graph_;
  Builder builder_;
  std::map<std::string, int> opsets_;
  InlineResult result_;
};

}  // namespace

InlineResult InlineCalls(Graph* graph) { return Inliner(graph).Run(); }

}  // namespace onnx_memopt::rewrite
