#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::io {
namespace {

std::string ListNames(const std::vector<std::string>& names) {
  if (names.empty()) return "it has none";
  std::string list;
  for (const std::string& name : names) {
    absl::StrAppend(&list, list.empty() ? "it has " : ", ", Printable(name));
  }
  return list;
}

// As type inference names it; empty: it is a number.
std::string DimName(const onnx::ValueInfoProto& input, int axis) {
  const auto& dim = input.type().tensor_type().shape().dim(axis);
  if (dim.dim_value() > 0) return "";
  return dim.dim_param().empty() ? absl::StrCat(input.name(), "[", axis, "]")
                                 : dim.dim_param();
}

}  // namespace

bool NamesOfShape(const LoadedModel& model, const std::string& input,
                  const std::vector<int64_t>& sizes, ir::Bindings* names) {
  for (const onnx::ValueInfoProto& value : model.proto().graph().input()) {
    if (value.name() != input) continue;
    const auto& tensor = value.type().tensor_type();
    const int rank = tensor.shape().dim_size();
    if (!tensor.has_shape() || static_cast<size_t>(rank) != sizes.size()) {
      return false;
    }
    for (int i = 0; i < rank; ++i) {
      const int64_t size = sizes[static_cast<size_t>(i)];
      const std::string name = DimName(value, i);
      if (name.empty() ? tensor.shape().dim(i).dim_value() != size
                       : names->try_emplace(name, size).first->second != size) {
        return false;
      }
    }
    return true;
  }
  return false;
}

absl::Status NameInputShape(const LoadedModel& model, ImportOptions* options) {
  const auto nameless = options->input_shapes.find("");
  if (nameless == options->input_shapes.end()) return absl::OkStatus();
  const onnx::GraphProto& graph = model.proto().graph();
  absl::flat_hash_set<absl::string_view> initializers;
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    initializers.insert(tensor.name());
  }
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer()) {
    initializers.insert(tensor.values().name());
  }
  std::vector<std::string> inputs;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!initializers.contains(input.name())) inputs.push_back(input.name());
  }
  if (inputs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shape without the name of an input is for models with "
                     "one input; ",
                     ListNames(inputs)));
  }
  if (!options->input_shapes.try_emplace(inputs[0], nameless->second).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("two shapes are given for input \"", Printable(inputs[0]),
                     "\": one with its name, and one without"));
  }
  options->input_shapes.erase("");
  return absl::OkStatus();
}

absl::Status CheckImportOptions(const LoadedModel& model,
                                const ImportOptions& options) {
  std::vector<std::string> dims;
  std::vector<std::string> inputs;
  ir::Bindings bound = options.dims;
  for (const onnx::ValueInfoProto& input : model.proto().graph().input()) {
    inputs.push_back(input.name());
    const auto& shape = input.type().tensor_type().shape();
    for (int i = 0; i < shape.dim_size(); ++i) {
      std::string name = DimName(input, i);
      if (name.empty()) continue;
      if (std::find(dims.begin(), dims.end(), name) == dims.end()) {
        dims.push_back(std::move(name));
      }
    }
    const auto given = options.input_shapes.find(input.name());
    if (given == options.input_shapes.end()) continue;
    if (input.type().tensor_type().has_shape() &&
        static_cast<size_t>(shape.dim_size()) != given->second.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input \"", Printable(input.name()), "\" has ", shape.dim_size(),
          " dimensions, not ", given->second.size()));
    }
    for (int i = 0; i < shape.dim_size(); ++i) {
      const std::string& name = shape.dim(i).dim_param();
      if (name.empty()) continue;
      const int64_t size = given->second[static_cast<size_t>(i)];
      const auto [it, is_new] = bound.try_emplace(name, size);
      if (!is_new && it->second != size) {
        return absl::InvalidArgumentError(
            absl::StrCat("dimension \"", Printable(name), "\" is given as ",
                         it->second, " and, in the shape of input \"",
                         Printable(input.name()), "\", as ", size));
      }
    }
  }
  for (const auto& [name, size] : options.dims) {
    if (std::find(dims.begin(), dims.end(), name) == dims.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model has no dimension \"", Printable(name), "\"; ",
                       ListNames(dims)));
    }
    if (size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimension \"", Printable(name),
                       "\" must be at least 1, not ", size));
    }
  }
  for (const auto& [name, shape] : options.input_shapes) {
    if (std::find(inputs.begin(), inputs.end(), name) == inputs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model has no input \"", Printable(name), "\"; ",
                       ListNames(inputs)));
    }
    for (int64_t dim : shape) {
      if (dim < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("input \"", Printable(name),
                         "\": a dimension must be at least 1, not ", dim));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::io
