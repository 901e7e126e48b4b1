// share-initializers: of weights that are equal bit by bit, keeps the first and
// lets the users of the others read it.
//
//     w1 float[768, 768] = ...  \                      w1  <- MatMul_3
//     w2 float[768, 768] = ...  /  the same bits   =>      <- MatMul_9
//
// Why it saves memory: runtimes load each initializer, tied or not; exporters
// store tied weights (embedding and output projection) once per use. Cost:
// equal candidates are read once, in pieces; weights that differ in a few
// samples are not. Refuses: weights that are also graph inputs (the caller may
// override one), graph outputs, weights of which one cannot be seen from where
// the other is used. Transposed copies are reported only: sharing them would
// add work to the run. Paper: none. Run drop-dead before it, so that dead
// weights do not count. Never for training: tied parameters would get one
// gradient.
//
// Options: read-external (default true), min-bytes (default 1).

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/equal_weights.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::ValueId;
using ir::WeightId;

class ShareInitializers final : public pass::Pass {
 public:
  explicit ShareInitializers(analysis::EqualWeightsOptions options)
      : options_(options) {}

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
                     FindEqualWeights(graph, weights, options_));
    const bool changed = Merge(graph, equal, candidates, context);
    for (const auto& [a, b] : equal.transposed) {
      context.Remark(absl::StrCat(
          "\"", Printable(graph.weight(a).name), "\" is \"",
          Printable(graph.weight(b).name), "\" transposed (",
          FormatBytes(graph.weight(b).size_bytes), "); left as it is"));
    }
    for (const std::string& message : equal.unread) {
      context.Remark(absl::StrCat("not compared: ", Printable(message)));
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
  static absl::flat_hash_map<absl::string_view, int> CountNames(
      const Graph& graph, const analysis::EqualWeights& equal) {
    absl::flat_hash_map<absl::string_view, int> names;
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
    const absl::flat_hash_map<absl::string_view, int> names =
        CountNames(graph, equal);
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

  analysis::EqualWeightsOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeShareInitializers(
    pass::PassOptions& options) {
  analysis::EqualWeightsOptions equal;
  ASSIGN_OR_RETURN(equal.read_external,
                   options.Bool("read-external", true,
                                "compare weights in external files too"));
  ASSIGN_OR_RETURN(equal.min_size_bytes,
                   options.Int("min-bytes", 1, "leave smaller weights alone"));
  return std::make_unique<ShareInitializers>(equal);
}

}  // namespace onnx_memopt::passes
