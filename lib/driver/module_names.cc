#include "driver/module_names.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace onnx_memopt {

std::string ModuleOfScopes(absl::string_view scopes) {
  // What stands in quotes. Names of modules are identifiers, so that no quote
  // has to be escaped.
  std::vector<absl::string_view> entries;
  const std::vector<absl::string_view> parts = absl::StrSplit(scopes, '\'');
  for (size_t i = 1; i + 1 < parts.size(); i += 2) entries.push_back(parts[i]);
  if (entries.size() < 2) return "";
  return std::string(entries[entries.size() - 2]);
}

std::string ModuleOfNodeName(absl::string_view name) {
  if (!absl::StartsWith(name, "/")) return "";
  std::string module;
  const std::vector<absl::string_view> parts =
      absl::StrSplit(name.substr(1), '/');
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    // A part may repeat those before it: "/layer1/layer1.0".
    const bool repeats =
        module.empty() || absl::StartsWith(parts[i], absl::StrCat(module, "."));
    if (repeats) {
      module = std::string(parts[i]);
    } else {
      absl::StrAppend(&module, ".", parts[i]);
    }
  }
  return module;
}

std::vector<std::string> ModuleNames(const io::LoadedModel& model,
                                     const ir::Graph& graph) {
  std::vector<std::string> modules(graph.num_nodes());
  const auto& nodes = model.proto().graph().node();
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const ir::Node& node = graph.node(ir::NodeId{static_cast<uint32_t>(i)});
    if (node.source_block != ir::kMainBlock ||
        node.source_index >= static_cast<uint32_t>(nodes.size())) {
      continue;
    }
    const onnx::NodeProto& proto = nodes[static_cast<int>(node.source_index)];
    for (const onnx::StringStringEntryProto& entry : proto.metadata_props()) {
      if (entry.key() == "pkg.torch.onnx.name_scopes") {
        modules[i] = ModuleOfScopes(entry.value());
      }
    }
    if (modules[i].empty()) modules[i] = ModuleOfNodeName(proto.name());
  }
  return modules;
}

}  // namespace onnx_memopt
