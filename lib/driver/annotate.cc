#include "driver/annotate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

using analysis::AnalysisManager;
using analysis::Liveness;
using analysis::MemoryProfile;
using analysis::Sizes;
using analysis::Timeline;
using ir::BlockId;
using ir::NodeId;
using ir::ValueId;

constexpr absl::string_view kPrefix = "onnx_memopt.";

class Describer {
 public:
  Describer(const ir::Graph& graph, const Timeline& timeline,
            const Sizes& sizes, const Liveness& liveness,
            const MemoryProfile& profile)
      : graph_(graph),
        timeline_(timeline),
        sizes_(sizes),
        liveness_(liveness),
        profile_(profile),
        metadata_(graph.num_nodes()) {}

  io::NodeMetadata Describe() {
    for (const BlockId block : timeline_.blocks()) {
      FindSteps(block);
      FindMoved(block);
      for (const NodeId node : graph_.block(block).nodes) {
        DescribeNode(block, node);
      }
    }
    return std::move(metadata_);
  }

 private:
  // The steps of the block's own nodes; of a call, the first of its body's.
  void FindSteps(BlockId block) {
    const std::vector<NodeId>& steps = timeline_.steps(block);
    for (size_t i = 0; i < steps.size(); ++i) {
      NodeId node = steps[i];
      step_.try_emplace(node, i);
      while (graph_.node(node).block != block) {
        node = graph_.block(graph_.node(node).block).owner;
        step_.try_emplace(node, i);
      }
    }
  }

  // A node has moved if another one of its graph, which was read before it, now
  // runs after it: those that are in the longest list in the old order stay.
  void FindMoved(BlockId block) {
    std::vector<NodeId> nodes;
    for (const NodeId id : graph_.block(block).nodes) {
      if (!IsMade(id)) nodes.push_back(id);
    }
    // Patience sorting: the smallest last index of a list of each length.
    std::vector<size_t> last;
    std::vector<size_t> before(nodes.size(), nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto place = std::lower_bound(
          last.begin(), last.end(), i, [&](size_t a, size_t b) {
            return SourceIndex(nodes[a]) < SourceIndex(nodes[b]);
          });
      if (place != last.begin()) before[i] = *(place - 1);
      if (place == last.end()) {
        last.push_back(i);
      } else {
        *place = i;
      }
    }
    std::vector<bool> stays(nodes.size());
    for (size_t i = last.empty() ? nodes.size() : last.back(); i < nodes.size();
         i = before[i]) {
      stays[i] = true;
    }
    for (size_t i = 0; i < nodes.size(); ++i) moved_[nodes[i]] = !stays[i];
  }

  bool IsMade(NodeId id) const {
    return graph_.node(id).source_index == ir::kNoIndex;
  }
  uint32_t SourceIndex(NodeId id) const { return graph_.node(id).source_index; }

  std::string Decision(BlockId block, NodeId id) const {
    const ir::Node& node = graph_.node(id);
    if (IsMade(id)) return "made by a pass";
    std::string place;
    if (node.source_block != block) {
      const NodeId owner = graph_.block(block).owner;
      place = absl::StrCat("put into a subgraph of \"",
                           graph_.DisplayName(owner), "\"");
    }
    if (moved_.lookup(id)) {
      absl::StrAppend(&place, place.empty() ? "" : ", and ",
                      "moved from position ", node.source_index,
                      " of the node list");
    }
    return place.empty() ? "kept in place" : place;
  }

  void Add(NodeId id, absl::string_view key, std::string value) {
    metadata_[ir::Index(id)].emplace_back(absl::StrCat(kPrefix, key),
                                          std::move(value));
  }

  void DescribeNode(BlockId block, NodeId id) {
    const ir::Node& node = graph_.node(id);
    std::string lifetime;
    std::string bytes;
    for (const ValueId result : node.results) {
      if (result == ir::kNoValue) continue;
      const absl::string_view comma = lifetime.empty() ? "" : ", ";
      absl::StrAppend(&lifetime, comma, "[", liveness_.range(result).begin,
                      ", ", liveness_.range(result).end, ")");
      absl::StrAppend(&bytes, comma, Bytes(result));
    }
    Add(id, "lifetime", std::move(lifetime));
    Add(id, "bytes", std::move(bytes));
    const auto step = step_.find(id);
    // A call of a function without nodes has no step.
    if (step != step_.end()) {
      Add(id, "step", absl::StrCat(step->second));
      Add(id, "live_bytes",
          absl::StrCat(profile_.block(block).live_bytes[step->second]));
    }
    Add(id, "decision", Decision(block, id));
  }

  std::string Bytes(ValueId value) const {
    const std::optional<ir::Dim>& formula = sizes_.symbolic_bytes(value);
    if (formula && !formula->is_constant()) return formula->ToString();
    const std::optional<int64_t> bytes = sizes_.bytes(value);
    return bytes ? absl::StrCat(*bytes) : "?";
  }

  const ir::Graph& graph_;
  const Timeline& timeline_;
  const Sizes& sizes_;
  const Liveness& liveness_;
  const MemoryProfile& profile_;
  llvm::DenseMap<NodeId, size_t> step_;
  llvm::DenseMap<NodeId, bool> moved_;
  io::NodeMetadata metadata_;
};

}  // namespace

absl::StatusOr<io::NodeMetadata> DescribeNodes(const ir::Graph& graph,
                                               AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  return Describer(graph, *timeline, *sizes, *liveness, *profile).Describe();
}

}  // namespace onnx_memopt
