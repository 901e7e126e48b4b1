// share-initializers: of weights that are equal bit by bit, keeps the first and
// lets the users of the others read it.
//
//     w1 float[768, 768] = ...  \                      w1  <- MatMul_3
//     w2 float[768, 768] = ...  /  the same bits   =>      <- MatMul_9
//
// Why it saves memory: runtimes load each initializer, tied or not; exporters
// store tied weights (embedding and output projection) once per use. A matrix
// that is another one transposed is shared where all that reads it is a Gemm,
// or a MatMul of matrices, which becomes one: Gemm has an attribute for it. A
// Transpose of a weight would not do: the runtime computes it when it loads the
// model, and then holds both. Equal weights in two branches move to the graph
// around them. Cost: equal candidates are read once, in pieces; weights that
// differ in a few samples are not. Refuses: weights that are also graph inputs
// (the caller may override one), graph outputs, weights of which one cannot be
// seen from where the other is used and that the runtime would not pack there.
// Paper: none. Run drop-dead before it, so that dead weights do not count.
// Never for training: tied parameters would get one gradient.
//
// Options: read-external, min-bytes, transposed, uniform (docs/passes.md).

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/equal_weights.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::NodeId;
using ir::ValueId;
using ir::WeightId;

struct ShareOptions {
  analysis::EqualWeightsOptions equal;
  bool transposed = true;
  bool uniform = false;
};

// Gemm without a third operand.
constexpr int kGemmOpset = 11;
// What a ConstantOfShape and its shape take in the file.
constexpr int64_t kMinUniformBytes = 1024;

// Who reads which value, as the graph is when this is made. Results of blocks
// are read by no node.
class Uses {
 public:
  struct Use {
    NodeId node = ir::kNoNode;
    size_t index = 0;
  };

  explicit Uses(const Graph& graph) : by_value_(graph.num_values()) {
    for (size_t i = 0; i < graph.num_blocks(); ++i) {
      const ir::Block& block = graph.block(BlockId(static_cast<uint32_t>(i)));
      for (ValueId result : block.results) Add(result, {});
      for (NodeId id : block.nodes) {
        const auto& operands = graph.node(id).operands;
        for (size_t k = 0; k < operands.size(); ++k) {
          Add(operands[k], {.node = id, .index = k});
        }
      }
    }
  }

  const std::vector<Use>& of(ValueId value) const {
    return by_value_[Index(value)];
  }
  // What read `from` reads `to` now.
  void Move(ValueId from, ValueId to) {
    std::vector<Use>& uses = by_value_[Index(to)];
    const std::vector<Use> moved = std::move(by_value_[Index(from)]);
    by_value_[Index(from)].clear();
    uses.insert(uses.end(), moved.begin(), moved.end());
  }

 private:
  void Add(ValueId value, Use use) {
    if (value != ir::kNoValue) by_value_[Index(value)].push_back(use);
  }

  std::vector<std::vector<Use>> by_value_;
};

class ShareInitializers final : public pass::Pass {
 public:
  explicit ShareInitializers(ShareOptions options) : options_(options) {}

  absl::string_view name() const override { return "share-initializers"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    ASSIGN_OR_RETURN(const analysis::Timeline* timeline,
                     context.analyses().Get<analysis::Timeline>());
    const llvm::DenseMap<WeightId, ValueId> candidates =
        Candidates(graph, *timeline);
    std::vector<WeightId> weights;
    for (BlockId block : timeline->blocks()) {
      for (ValueId value : graph.block(block).initializers) {
        const WeightId weight = graph.value(value).weight;
        if (candidates.contains(weight)) weights.push_back(weight);
      }
    }
    ASSIGN_OR_RETURN(const analysis::EqualWeights equal,
                     FindEqualWeights(graph, weights, options_.equal));
    bool changed = Merge(graph, equal, candidates, context);
    std::optional<Uses> uses;
    for (const auto& [a, b] : equal.transposed) {
      if (options_.transposed && !uses) uses.emplace(graph);
      if (options_.transposed &&
          (ShareTransposed(graph, candidates.lookup(a), candidates.lookup(b),
                           &*uses, context) ||
           ShareTransposed(graph, candidates.lookup(b), candidates.lookup(a),
                           &*uses, context))) {
        changed = true;
        continue;
      }
      context.Remark(absl::StrCat(
          "\"", Printable(graph.weight(a).name), "\" is \"",
          Printable(graph.weight(b).name), "\" transposed (",
          FormatBytes(graph.weight(b).size_bytes), "); left as it is"));
    }
    for (const std::string& message : equal.unread) {
      context.Remark(absl::StrCat("not compared: ", Printable(message)));
    }
    if (options_.uniform) {
      ASSIGN_OR_RETURN(const bool made, MakeUniform(graph, context));
      changed = changed || made;
    }
    return changed;
  }

 private:
  static llvm::DenseMap<WeightId, ValueId> Candidates(
      const Graph& graph, const analysis::Timeline& timeline) {
    // Outputs keep their names, so their values stay.
    llvm::DenseSet<ValueId> outputs;
    for (BlockId block : timeline.blocks()) {
      outputs.insert(graph.block(block).results.begin(),
                     graph.block(block).results.end());
    }
    llvm::DenseMap<WeightId, ValueId> candidates;
    for (BlockId block : timeline.blocks()) {
      for (ValueId value : graph.block(block).initializers) {
        const ir::Value& v = graph.value(value);
        if (!v.overridable && !v.pinned && !outputs.contains(value)) {
          candidates[v.weight] = value;
        }
      }
    }
    return candidates;
  }

  // How often a name is defined: one that a nested graph defines again does not
  // mean the same weight there.
  static absl::flat_hash_map<std::string, int> CountNames(
      const Graph& graph, const analysis::EqualWeights& equal) {
    absl::flat_hash_map<std::string, int> names;
    for (size_t i = 0; !equal.groups.empty() && i < graph.num_values(); ++i) {
      ++names[graph.value(ValueId(static_cast<uint32_t>(i))).name];
    }
    return names;
  }

  static bool Merge(Graph& graph, const analysis::EqualWeights& equal,
                    const llvm::DenseMap<WeightId, ValueId>& candidates,
                    pass::PassContext& context) {
    llvm::DenseMap<ValueId, ValueId> replacements;
    int64_t saved_bytes = 0;
    const absl::flat_hash_map<std::string, int> names =
        CountNames(graph, equal);
    std::optional<Uses> uses;  // as long as nothing is replaced
    for (const std::vector<WeightId>& group : equal.groups) {
      std::vector<ValueId> kept;
      for (WeightId weight : group) {
        const ValueId value = candidates.lookup(weight);
        const auto visible =
            std::find_if(kept.begin(), kept.end(), [&](ValueId representative) {
              return names.at(graph.value(representative).name) == 1 &&
                     graph.IsInside(graph.value(value).block,
                                    graph.value(representative).block);
            });
        if (visible == kept.end()) {
          if (!kept.empty() && !uses) uses.emplace(graph);
          if (!kept.empty() &&
              Hoist(graph, names, *uses, kept.front(), value)) {
            replacements[value] = kept.front();
            saved_bytes += graph.weight(weight).size_bytes;
            continue;
          }
          kept.push_back(value);
          continue;
        }
        replacements[value] = *visible;
        saved_bytes += graph.weight(weight).size_bytes;
      }
    }
    if (replacements.empty()) return false;
    graph.ReplaceUses(replacements);
    for (size_t i = 0; i < graph.num_blocks(); ++i) {
      const BlockId block{static_cast<uint32_t>(i)};
      std::erase_if(
          graph.mutable_block(block).initializers,
          [&](ValueId value) { return replacements.contains(value); });
    }
    context.Remark(absl::StrCat("shared ", replacements.size(),
                                " repeated weight",
                                replacements.size() == 1 ? "" : "s", ", saves ",
                                FormatBytes(saved_bytes)));
    return true;
  }

  // Moves a weight out of its subgraph, to where `other` is seen from too. The
  // runtime packs weights of products only where they are initializers, so
  // those stay.
  static bool Hoist(Graph& graph,
                    const absl::flat_hash_map<std::string, int>& names,
                    const Uses& uses, ValueId value, ValueId other) {
    const ir::Weight& weight = graph.weight(graph.value(value).weight);
    if (weight.storage == ir::WeightStorage::kExternal ||
        weight.element == ir::ElementType::kString ||
        names.at(graph.value(value).name) != 1 ||
        IsPacked(graph, uses.of(value)) || IsPacked(graph, uses.of(other))) {
      return false;
    }
    BlockId around = graph.value(value).block;
    while (!graph.IsInside(graph.value(other).block, around)) {
      around = graph.node(graph.block(around).owner).block;
    }
    if (around == graph.value(value).block) return false;
    ir::Value& moved = graph.mutable_value(value);
    std::erase(graph.mutable_block(moved.block).initializers, value);
    moved.block = around;
    moved.source_block = ir::kNoBlock;  // written anew
    graph.mutable_block(around).initializers.push_back(value);
    return true;
  }

  static bool IsPacked(const Graph& graph, const std::vector<Uses::Use>& uses) {
    return std::any_of(uses.begin(), uses.end(), [&](const Uses::Use& use) {
      return use.node == ir::kNoNode ||
             (use.index > 0 && graph.node(use.node).info->recompute ==
                                   ir::RecomputeCost::kExpensive);
    });
  }

  // Lets the readers of `dropped` read `kept`, of which it is the transposed.
  static bool ShareTransposed(Graph& graph, ValueId dropped, ValueId kept,
                              Uses* uses, pass::PassContext& context) {
    if (graph.value(dropped).block != graph.value(kept).block ||
        graph.value(dropped).block != ir::kMainBlock) {
      return false;
    }
    const std::vector<Uses::Use>& readers = uses->of(dropped);
    if (readers.empty() ||
        !std::all_of(readers.begin(), readers.end(), [&](const Uses::Use& use) {
          return CanReadTransposed(graph, use);
        })) {
      return false;
    }
    for (const Uses::Use& use : readers) {
      ir::Node& node = graph.mutable_node(use.node);
      const int64_t flag = 1 - ir::IntAttribute(node, "transB", 0);
      std::erase_if(node.attributes,
                    [](const ir::Attribute& a) { return a.name == "transB"; });
      node.attributes.push_back({"transB", flag});
      node.op_type = "Gemm";
      node.info = &ir::FindOpInfo(node.domain, node.op_type);
      node.operands[1] = kept;
      node.ForgetSource();
    }
    std::erase(graph.mutable_block(ir::kMainBlock).initializers, dropped);
    const ir::Weight& weight = graph.weight(graph.value(dropped).weight);
    context.Remark(absl::StrCat("\"", Printable(weight.name), "\" is \"",
                                Printable(graph.value(kept).name),
                                "\" transposed: read by ", readers.size(),
                                " Gemm", readers.size() == 1 ? "" : "s",
                                ", saves ", FormatBytes(weight.size_bytes)));
    uses->Move(dropped, kept);
    return true;
  }

  // As the second operand of a Gemm, or of a MatMul that can be one.
  static bool CanReadTransposed(const Graph& graph, const Uses::Use& use) {
    if (use.node == ir::kNoNode || use.index != 1) return false;
    const ir::Node& node = graph.node(use.node);
    const ValueId first = node.operands[0];
    if (!node.domain.empty() || node.is_call || node.opset < kGemmOpset ||
        first == ir::kNoValue || first == node.operands[1] ||
        graph.block(node.block).kind == ir::BlockKind::kCallBody) {
      return false;
    }
    const ir::Type& type = graph.value(first).type;
    switch (type.element) {
      case ir::ElementType::kFloat:
      case ir::ElementType::kDouble:
      case ir::ElementType::kFloat16:
        break;
      default:
        return false;
    }
    return node.op_type == "Gemm" ||
           (node.op_type == "MatMul" && type.shape && type.shape->size() == 2);
  }

  // Weights all of whose elements are the same bits, as ConstantOfShape.
  absl::StatusOr<bool> MakeUniform(Graph& graph,
                                   pass::PassContext& context) const {
    rewrite::Builder builder(&graph);
    if (!rewrite::CheckCanBuild(graph).ok()) return false;
    ir::WeightReader reader;
    int64_t count = 0;
    int64_t saved_bytes = 0;
    const std::vector<ValueId> weights =
        graph.block(ir::kMainBlock).initializers;
    const llvm::DenseSet<ValueId> outputs(
        graph.block(ir::kMainBlock).results.begin(),
        graph.block(ir::kMainBlock).results.end());
    for (ValueId value : weights) {
      const ir::Value& v = graph.value(value);
      const ir::Weight& weight = graph.weight(v.weight);
      if (v.overridable || v.pinned || outputs.contains(value) ||
          weight.size_bytes < kMinUniformBytes || weight.is_transformed() ||
          !rewrite::CanBuildWith(weight.element) ||
          (weight.storage != ir::WeightStorage::kRaw &&
           (weight.storage != ir::WeightStorage::kExternal ||
            !options_.equal.read_external))) {
        continue;
      }
      const std::string element = UniformElement(weight, reader);
      if (graph.drop_resident) graph.drop_resident();
      if (element.empty()) continue;
      Replace(builder, value, weight, element);
      ++count;
      saved_bytes += weight.size_bytes;
    }
    if (count == 0) return false;
    context.Remark(absl::StrCat(count, " uniform weights as ConstantOfShape, ",
                                FormatBytes(saved_bytes), " less in the file"));
    return true;
  }

  // The bytes of one element, if all are the same; else empty.
  static std::string UniformElement(const ir::Weight& weight,
                                    ir::WeightReader& reader) {
    const auto width = static_cast<size_t>(*ir::BitWidth(weight.element)) / 8;
    std::string element;
    const absl::Status all =
        reader.Visit(weight, [&](absl::string_view bytes) -> absl::Status {
          if (element.empty()) {
            element = std::string(bytes.substr(0, width));
          }
          // Equal to itself, moved by one element.
          if (bytes.substr(0, width) != element ||
              bytes.substr(width) != bytes.substr(0, bytes.size() - width)) {
            return absl::CancelledError("not uniform");
          }
          return absl::OkStatus();
        });
    return all.ok() ? element : "";
  }

  static void Replace(rewrite::Builder& builder, ValueId value,
                      const ir::Weight& weight, const std::string& element) {
    Graph& graph = builder.graph();
    std::erase(graph.mutable_block(ir::kMainBlock).initializers, value);
    const std::string name = graph.value(value).name;
    const ValueId shape = builder.Int64s(
        ir::kMainBlock, absl::StrCat(name, "_shape"), weight.dims);
    ir::Weight fill;
    fill.name = name;
    fill.element = weight.element;
    fill.dims.push_back(1);
    fill.size_bytes = static_cast<int64_t>(element.size());
    fill.bytes = graph.OwnBytes(element);
    const ir::WeightId fill_id = graph.AddWeight(std::move(fill));
    ir::Value& v = graph.mutable_value(value);
    v.kind = ir::ValueKind::kResult;
    v.weight = ir::kNoWeight;
    v.contents = nullptr;
    const NodeId node = builder.Node(
        ir::kMainBlock, "ConstantOfShape", {shape}, {value},
        absl::StrCat(name, "/ConstantOfShape"), {{"value", fill_id}});
    auto& nodes = graph.mutable_block(ir::kMainBlock).nodes;
    nodes.insert(nodes.begin(), node);
  }

  ShareOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeShareInitializers(
    pass::PassOptions& options) {
  ShareOptions share;
  ASSIGN_OR_RETURN(share.equal.read_external,
                   options.Bool("read-external", true,
                                "compare weights in external files too"));
  ASSIGN_OR_RETURN(share.equal.min_size_bytes,
                   options.Int("min-bytes", 1, "leave smaller weights alone"));
  ASSIGN_OR_RETURN(
      share.transposed,
      options.Bool("transposed", true,
                   "read a transposed copy as the original, by Gemm"));
  ASSIGN_OR_RETURN(
      share.uniform,
      options.Bool("uniform", false,
                   "weights of one number as ConstantOfShape: a smaller file"));
  return std::make_unique<ShareInitializers>(share);
}

}  // namespace onnx_memopt::passes
