#include "onnx_memopt/io/append_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "io/external_data.h"
#include "onnx_memopt/io/payload_scan.h"
#include "onnx_memopt/io/tensor_walk.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

namespace fs = std::filesystem;

// Renames all that a graph and its subgraphs define and read.
class Renamer {
 public:
  explicit Renamer(const AppendOptions& options) : options_(options) {}

  std::string NewName(const std::string& name) const {
    const auto it = options_.inputs.find(name);
    return it == options_.inputs.end() ? absl::StrCat(options_.prefix, name)
                                       : it->second;
  }

  void Graph(onnx::GraphProto* graph) const {
    for (onnx::TensorProto& tensor : *graph->mutable_initializer()) {
      Rename(tensor.mutable_name());
    }
    for (onnx::SparseTensorProto& sparse :
         *graph->mutable_sparse_initializer()) {
      Rename(sparse.mutable_values()->mutable_name());
    }
    for (auto* infos : {graph->mutable_input(), graph->mutable_output(),
                        graph->mutable_value_info()}) {
      for (onnx::ValueInfoProto& info : *infos) Rename(info.mutable_name());
    }
    for (onnx::TensorAnnotation& annotation :
         *graph->mutable_quantization_annotation()) {
      Rename(annotation.mutable_tensor_name());
      for (auto& entry : *annotation.mutable_quant_parameter_tensor_names()) {
        Rename(entry.mutable_value());
      }
    }
    for (onnx::NodeProto& node : *graph->mutable_node()) Node(&node);
  }

 private:
  // A name that is left out stays so.
  void Rename(std::string* name) const {
    if (!name->empty()) *name = NewName(*name);
  }

  void Node(onnx::NodeProto* node) const {
    if (!node->name().empty()) {
      node->set_name(absl::StrCat(options_.prefix, node->name()));
    }
    for (std::string& input : *node->mutable_input()) Rename(&input);
    for (std::string& output : *node->mutable_output()) Rename(&output);
    for (onnx::AttributeProto& attribute : *node->mutable_attribute()) {
      if (attribute.has_g()) Graph(attribute.mutable_g());
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) Graph(&graph);
    }
  }

  const AppendOptions& options_;
};

absl::string_view DomainOf(const onnx::OperatorSetIdProto& opset) {
  return opset.domain().empty() ? absl::string_view("ai.onnx")
                                : absl::string_view(opset.domain());
}

absl::Status JoinOpsets(const onnx::ModelProto& from, onnx::ModelProto* to) {
  for (const onnx::OperatorSetIdProto& opset : from.opset_import()) {
    const auto same = std::find_if(
        to->opset_import().begin(), to->opset_import().end(),
        [&](const auto& other) { return DomainOf(other) == DomainOf(opset); });
    if (same == to->opset_import().end()) {
      *to->add_opset_import() = opset;
    } else if (same->version() != opset.version()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "it has opset ", opset.version(), " of ", Printable(DomainOf(opset)),
          ", and the model beside it ", same->version(),
          " (onnx.version_converter converts one of them)"));
    }
  }
  return absl::OkStatus();
}

// `from`: the functions as they were read; `moved`: what is to be added of
// them, the same ones in the same order.
absl::Status JoinFunctions(const onnx::ModelProto& from,
                           const onnx::ModelProto& moved,
                           onnx::ModelProto* to) {
  const auto key = [](const onnx::FunctionProto& function) {
    return absl::StrCat(function.domain(), "\n", function.name(), "\n",
                        function.overload());
  };
  absl::flat_hash_map<std::string, std::string> known;
  for (const onnx::FunctionProto& function : to->functions()) {
    known[key(function)] = function.SerializeAsString();
  }
  for (int i = 0; i < from.functions_size(); ++i) {
    const onnx::FunctionProto& function = from.functions(i);
    const auto [it, added] =
        known.try_emplace(key(function), function.SerializeAsString());
    if (added) {
      *to->add_functions() = moved.functions(i);
    } else if (it->second != function.SerializeAsString()) {
      return absl::InvalidArgumentError(
          absl::StrCat("its function \"", Printable(function.name()),
                       "\" is another one than that of the model beside it"));
    }
  }
  return absl::OkStatus();
}

bool HasExternalData(const onnx::ModelProto& model) {
  // The walk ends at the first one.
  return !ForEachTensor(model,
                        [](const onnx::TensorProto& tensor,
                           const TensorPlace&) -> absl::Status {
                          return IsExternal(tensor)
                                     ? absl::CancelledError("found")
                                     : absl::OkStatus();
                        })
              .ok();
}

absl::StatusOr<fs::path> Canonical(const std::string& folder) {
  std::error_code error;
  fs::path path = fs::canonical(folder, error);
  if (!error) return path;
  return absl::NotFoundError(
      absl::StrCat("folder of external data: ", error.message()));
}

fs::path CommonFolder(const fs::path& a, const fs::path& b) {
  fs::path common;
  for (auto i = a.begin(), j = b.begin();
       i != a.end() && j != b.end() && *i == *j; ++i, ++j) {
    common /= *i;
  }
  return common;
}

// Puts `folder` before the locations of all external data.
absl::Status MoveLocations(const fs::path& folder, onnx::ModelProto* model) {
  if (folder == ".") return absl::OkStatus();
  return ForEachMutableTensor(
      model,
      [&](onnx::TensorProto* tensor, const TensorPlace&) -> absl::Status {
        if (!IsExternal(*tensor)) return absl::OkStatus();
        ASSIGN_OR_RETURN(const ExternalEntry entry,
                         ParseExternalEntry(*tensor));
        SetExternalLocation((folder / entry.location).string(), tensor);
        return absl::OkStatus();
      });
}

// The folder that external locations of both are relative to from now on.
absl::StatusOr<std::string> JoinFolders(const LoadedModel& first,
                                        const LoadedModel& second,
                                        onnx::ModelProto* a,
                                        onnx::ModelProto* b) {
  if (first.directory() == second.directory() || !HasExternalData(*b)) {
    return first.directory();
  }
  if (!HasExternalData(*a)) return second.directory();
  ASSIGN_OR_RETURN(const fs::path x, Canonical(first.directory()));
  ASSIGN_OR_RETURN(const fs::path y, Canonical(second.directory()));
  const fs::path common = CommonFolder(x, y);
  RETURN_IF_ERROR(MoveLocations(x.lexically_relative(common), a));
  RETURN_IF_ERROR(MoveLocations(y.lexically_relative(common), b));
  return common.string();
}

absl::Status MoveMarkers(const LoadedModel& second, size_t behind,
                         onnx::ModelProto* model) {
  return ForEachMutableTensor(
      model,
      [&](onnx::TensorProto* tensor, const TensorPlace&) -> absl::Status {
        ASSIGN_OR_RETURN(const Payload* payload,
                         FindPayload(*tensor, second.payloads()));
        if (payload == nullptr) return absl::OkStatus();
        const auto index =
            static_cast<size_t>(payload - second.payloads().data());
        ClearMarker(tensor);
        SetMarker(behind + index, tensor);
        return absl::OkStatus();
      });
}

template <typename Field>
void Append(Field* from, Field* to) {
  for (auto& element : *from) *to->Add() = std::move(element);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const LoadedModel>> AppendModel(
    std::shared_ptr<const LoadedModel> first,
    std::shared_ptr<const LoadedModel> second, const AppendOptions& options) {
  // make_shared cannot use the private constructor.
  std::shared_ptr<LoadedModel> both(new LoadedModel());
  both->path_ = first->path();
  both->file_size_bytes_ = first->file_size_bytes();
  both->is_text_ = first->is_text();
  both->payloads_.assign(first->payloads().begin(), first->payloads().end());
  both->payloads_.insert(both->payloads_.end(), second->payloads().begin(),
                         second->payloads().end());
  both->proto_ = first->proto();
  onnx::ModelProto& joined = both->proto_;
  onnx::ModelProto added = second->proto();
  added.clear_training_info();
  RETURN_IF_ERROR(JoinOpsets(added, &joined));
  RETURN_IF_ERROR(MoveMarkers(*second, first->payloads().size(), &added));
  ASSIGN_OR_RETURN(both->directory_,
                   JoinFolders(*first, *second, &joined, &added));
  RETURN_IF_ERROR(JoinFunctions(second->proto(), added, &joined));
  joined.set_ir_version(std::max(joined.ir_version(), added.ir_version()));
  onnx::GraphProto& from = *added.mutable_graph();
  onnx::GraphProto& to = *joined.mutable_graph();
  Renamer(options).Graph(&from);
  // Inputs that are there already, and weights, which are constants here even
  // where the second model lets its caller replace them.
  absl::flat_hash_set<std::string> known;
  for (const auto& [_, name] : options.inputs) known.insert(name);
  for (const auto& tensor : from.initializer()) known.insert(tensor.name());
  for (onnx::ValueInfoProto& input : *from.mutable_input()) {
    if (!known.contains(input.name())) *to.add_input() = std::move(input);
  }
  Append(from.mutable_initializer(), to.mutable_initializer());
  Append(from.mutable_sparse_initializer(), to.mutable_sparse_initializer());
  Append(from.mutable_value_info(), to.mutable_value_info());
  Append(from.mutable_output(), to.mutable_value_info());
  Append(from.mutable_quantization_annotation(),
         to.mutable_quantization_annotation());
  Append(from.mutable_node(), to.mutable_node());
  both->parts_ = {std::move(first), std::move(second)};
  return both;
}

std::string FreePrefix(const LoadedModel& model, const std::string& base) {
  std::vector<absl::string_view> names;
  const onnx::GraphProto& graph = model.proto().graph();
  for (const auto& tensor : graph.initializer())
    names.emplace_back(tensor.name());
  for (const auto& input : graph.input()) names.emplace_back(input.name());
  for (const auto& node : graph.node()) {
    names.emplace_back(node.name());
    for (const std::string& output : node.output()) names.emplace_back(output);
  }
  std::string prefix = absl::StrCat(base, "/");
  for (int i = 2; std::any_of(
           names.begin(), names.end(),
           [&](absl::string_view n) { return absl::StartsWith(n, prefix); });
       ++i) {
    prefix = absl::StrCat(base, "_", i, "/");
  }
  return prefix;
}

}  // namespace onnx_memopt::io
