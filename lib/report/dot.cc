#include "onnx_memopt/report/dot.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt {
namespace {

constexpr size_t kMaxName = 48;
constexpr size_t kMaxScopeDepth = 12;
constexpr size_t kMaxOpsInLabel = 4;
// Fewer scopes than that say nothing of a large graph.
constexpr size_t kMinGroups = 8;
// From little to all of the peak.
constexpr const char* kFills[] = {"#f7fbff", "#deebf7", "#c6dbef",
                                  "#fdd0a2", "#fdae6b", "#fb6a4a"};

// Text from a model, in a quoted string of the language.
std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(Ellipsize(Printable(text), kMaxName),
                             {{"\\", "\\\\"}, {"\"", "\\\""}});
}

// The folders of "/layer1/block0/Conv"; of a nameless node, those of its
// result.
std::vector<std::string> ScopesOf(const ReportNode& node) {
  absl::string_view name = node.name;
  if (absl::StartsWith(name, absl::StrCat(node.op, ":"))) {
    name.remove_prefix(node.op.size() + 1);
  }
  std::vector<std::string> parts = absl::StrSplit(name, '/', absl::SkipEmpty());
  if (!parts.empty()) parts.pop_back();
  return parts;
}

// What is drawn as one box.
struct Box {
  int64_t graph = 0;
  std::string name;
  std::vector<const ReportNode*> nodes;
};

class DotWriter {
 public:
  DotWriter(const Report& report, const DotOptions& options)
      : report_(report), options_(options) {
    for (const auto* nodes : {&report.nodes, &report.inner_nodes}) {
      for (const ReportNode& node : *nodes) nodes_.push_back(&node);
    }
    for (const ReportNode* node : nodes_) {
      peak_ = std::max(peak_, node->live_bytes);
    }
  }

  std::string Write() {
    Group();
    out_ =
        "digraph model {\n"
        "  graph [rankdir=TB, fontname=\"sans-serif\", compound=true];\n"
        "  node [shape=box, style=\"rounded,filled\", "
        "fontname=\"sans-serif\", fontsize=10];\n"
        "  edge [fontname=\"sans-serif\", fontsize=9, color=\"#666666\"];\n";
    WriteInputs();
    WriteGraph(0, "  ");
    WriteEdges();
    out_.append("}\n");
    return std::move(out_);
  }

 private:
  void Group() {
    if (nodes_.size() <= options_.max_boxes) {
      for (const ReportNode* node : nodes_) AddTo(NewBox(*node, ""), *node);
      return;
    }
    const size_t depth = ScopeDepth();
    if (depth > 0) {
      GroupByScope(depth);
    } else {
      GroupByRun();
    }
  }

  static std::string ScopeKey(const ReportNode& node, size_t depth) {
    std::vector<std::string> scopes = ScopesOf(node);
    if (scopes.size() > depth) scopes.resize(depth);
    return absl::StrJoin(scopes, "/");
  }

  // The deepest at which there are few enough scopes; 0: none will do.
  size_t ScopeDepth() const {
    for (size_t depth = kMaxScopeDepth; depth > 0; --depth) {
      std::set<std::pair<int64_t, std::string>> scopes;
      for (const ReportNode* node : nodes_) {
        scopes.emplace(node->graph, ScopeKey(*node, depth));
      }
      if (scopes.size() > options_.max_boxes) continue;
      return scopes.size() >= kMinGroups ? depth : 0;
    }
    return 0;
  }

  void GroupByScope(size_t depth) {
    std::map<std::pair<int64_t, std::string>, size_t> by_scope;
    for (const ReportNode* node : nodes_) {
      std::string key = ScopeKey(*node, depth);
      const auto [it, added] =
          by_scope.try_emplace({node->graph, key}, boxes_.size());
      if (added) NewBox(*node, key.empty() ? "(no scope)" : "/" + key);
      AddTo(it->second, *node);
    }
  }

  // A graph of its own begins a new run.
  void GroupByRun() {
    const size_t length =
        (nodes_.size() + options_.max_boxes - 1) / options_.max_boxes;
    for (const ReportNode* node : nodes_) {
      if (boxes_.empty() || boxes_.back().graph != node->graph ||
          boxes_.back().nodes.size() >= length) {
        NewBox(*node, "");
      }
      AddTo(boxes_.size() - 1, *node);
    }
  }

  size_t NewBox(const ReportNode& first, absl::string_view name) {
    boxes_.push_back({.graph = first.graph, .name = std::string(name)});
    return boxes_.size() - 1;
  }

  void AddTo(size_t box, const ReportNode& node) {
    boxes_[box].nodes.push_back(&node);
    for (const int64_t tensor : node.outputs) made_in_[tensor] = box;
    for (const int64_t graph : node.graphs) owner_box_[graph] = box;
    for (const int64_t graph : node.graphs) owner_[graph] = &node;
  }

  void WriteInputs() {
    for (size_t i = 0; i < report_.tensors.size(); ++i) {
      const ReportTensor& tensor = report_.tensors[i];
      if (tensor.kind != "input" || tensor.graph != 0) continue;
      absl::StrAppend(&out_, "  in", i, " [shape=ellipse, fillcolor=white, ",
                      "label=\"", Escaped(tensor.name), "\\n",
                      Escaped(tensor.dtype + tensor.shape), "\"];\n");
    }
  }

  void WriteGraph(int64_t graph, const std::string& indent) {
    for (size_t i = 0; i < boxes_.size(); ++i) {
      if (boxes_[i].graph != graph) continue;
      WriteBox(i, indent);
      for (const auto& [inner, box] : owner_box_) {
        if (box != i) continue;
        absl::StrAppend(&out_, indent, "subgraph cluster_", inner, " {\n",
                        indent, "  label=\"subgraph of ",
                        Escaped(owner_.at(inner)->name),
                        "\"; style=rounded; color=\"#888888\";\n");
        WriteGraph(inner, indent + "  ");
        absl::StrAppend(&out_, indent, "}\n");
      }
    }
  }

  void WriteBox(size_t index, const std::string& indent) {
    const Box& box = boxes_[index];
    int64_t live = 0;
    for (const ReportNode* node : box.nodes) {
      live = std::max(live, node->live_bytes);
    }
    constexpr size_t kLast = std::size(kFills) - 1;
    const size_t fill = peak_ == 0
                            ? 0
                            : static_cast<size_t>(static_cast<double>(live) /
                                                  static_cast<double>(peak_) *
                                                  static_cast<double>(kLast));
    absl::StrAppend(&out_, indent, "b", index, " [fillcolor=\"",
                    kFills[std::min(fill, kLast)], "\", label=\"", Label(box),
                    "\\n", box.nodes.size() == 1 ? "live " : "peak ",
                    FormatBytes(live), "\"];\n");
  }

  static std::string Label(const Box& box) {
    const ReportNode& first = *box.nodes.front();
    if (box.nodes.size() == 1) {
      return absl::StrCat(Escaped(first.op), "\\n", Escaped(first.name));
    }
    std::map<std::string, int64_t> count;
    for (const ReportNode* node : box.nodes) ++count[node->op];
    std::vector<std::pair<int64_t, std::string>> ops;
    ops.reserve(count.size());
    for (const auto& [op, times] : count) ops.emplace_back(-times, op);
    std::sort(ops.begin(), ops.end());
    std::string text = absl::StrCat(
        box.name.empty() ? absl::StrCat("steps ", first.index, " to ",
                                        box.nodes.back()->index)
                         : Escaped(box.name),
        "\\n", box.nodes.size(), " nodes: ");
    for (size_t i = 0; i < ops.size() && i < kMaxOpsInLabel; ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ", ", -ops[i].first, " ",
                      Escaped(ops[i].second));
    }
    if (ops.size() > kMaxOpsInLabel) absl::StrAppend(&text, ", ...");
    return text;
  }

  // One arrow for all that one box reads of another; each tensor counts once.
  void WriteEdges() {
    std::map<std::pair<std::string, size_t>, std::set<int64_t>> edges;
    for (size_t i = 0; i < boxes_.size(); ++i) {
      for (const ReportNode* node : boxes_[i].nodes) {
        for (const int64_t tensor : node->inputs) {
          const auto made = made_in_.find(tensor);
          const ReportTensor& row =
              report_.tensors[static_cast<size_t>(tensor)];
          if (made != made_in_.end()) {
            if (made->second == i) continue;
            edges[{absl::StrCat("b", made->second), i}].insert(tensor);
          } else if (row.kind == "input" && row.graph == 0) {
            edges[{absl::StrCat("in", tensor), i}].insert(tensor);
          }
        }
      }
    }
    for (const auto& [ends, tensors] : edges) {
      std::optional<int64_t> bytes = 0;
      for (const int64_t tensor : tensors) {
        const auto& size = report_.tensors[static_cast<size_t>(tensor)].bytes;
        bytes = bytes && size ? CheckedAdd(*bytes, *size) : std::nullopt;
      }
      absl::StrAppend(
          &out_, "  ", ends.first, " -> b", ends.second, " [label=\"",
          bytes ? FormatBytes(*bytes) : "?",
          tensors.size() == 1 ? "" : absl::StrCat(" in ", tensors.size()),
          "\"];\n");
    }
  }

  const Report& report_;
  const DotOptions& options_;
  std::vector<const ReportNode*> nodes_;
  int64_t peak_ = 0;
  std::vector<Box> boxes_;
  std::map<int64_t, size_t> made_in_;           // tensor -> box
  std::map<int64_t, size_t> owner_box_;         // subgraph -> box
  std::map<int64_t, const ReportNode*> owner_;  // subgraph -> node
  std::string out_;
};

}  // namespace

std::string ReportToDot(const Report& report, const DotOptions& options) {
  return DotWriter(report, options).Write();
}

}  // namespace onnx_memopt
