// Models for the tests of lib/io.
#ifndef ONNX_MEMOPT_TEST_UNIT_IO_MODEL_BUILDER_H_
#define ONNX_MEMOPT_TEST_UNIT_IO_MODEL_BUILDER_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx/onnx_pb.h"

namespace onnx_memopt::testing {

// Bytes that differ from each other and between seeds.
inline std::string Noise(size_t size, uint32_t seed) {
  std::string bytes(size, '\0');
  uint32_t state = seed * 2654435761u + 1;
  for (char& c : bytes) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline onnx::TensorProto RawTensor(const std::string& name, int32_t type,
                                   std::initializer_list<int64_t> dims,
                                   std::string raw) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(std::move(raw));
  return tensor;
}

inline onnx::TensorProto ExternalTensor(const std::string& name,
                                        std::initializer_list<int64_t> dims,
                                        const std::string& location,
                                        const std::string& offset = "",
                                        const std::string& length = "") {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  if (!offset.empty()) add("offset", offset);
  if (!length.empty()) add("length", length);
  return tensor;
}

// A field that ONNX does not have.
template <typename Message>
void AddUnknown(Message* message, const std::string& text) {
  auto* fields = message->GetReflection()->MutableUnknownFields(message);
  fields->AddVarint(4711, 42);
  fields->AddLengthDelimited(4712)->assign(text);
  fields->AddFixed32(4713, 7);
  fields->AddFixed64(4714, 8);
}

inline onnx::ModelProto EmptyModel() {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.set_producer_name("test");
  model.add_opset_import()->set_version(18);
  model.mutable_graph()->set_name("g");
  return model;
}

// One tensor of each payload field, `count` entries each.
inline std::vector<onnx::TensorProto> AllFields(int count,
                                                const std::string& prefix) {
  using T = onnx::TensorProto;
  std::vector<T> tensors(7);
  const int32_t types[] = {T::FLOAT, T::INT32,  T::STRING, T::INT64,
                           T::UINT8, T::DOUBLE, T::UINT64};
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].set_name(absl::StrCat(prefix, i));
    tensors[i].set_data_type(types[i]);
    tensors[i].add_dims(count);
    tensors[i].set_doc_string("after the data");
    AddUnknown(&tensors[i], "in a tensor");
  }
  for (int i = 0; i < count; ++i) {
    tensors[0].add_float_data(static_cast<float>(i) / 3);
    tensors[1].add_int32_data(i * 7919 - 1000);
    tensors[2].add_string_data(absl::StrCat("s", i));
    tensors[3].add_int64_data(int64_t{i} * i * i - 1'000'000);
    tensors[5].add_double_data(i / 7.0);
    tensors[6].add_uint64_data(~uint64_t{0} - static_cast<uint64_t>(i));
  }
  tensors[4].set_raw_data(Noise(static_cast<size_t>(count), 5));
  return tensors;
}

// A graph with tensors of `count` entries in every place that a graph has, and
// `depth` levels of subgraphs.
inline onnx::GraphProto FullGraph(int count, int depth) {
  onnx::GraphProto graph;
  graph.set_name(absl::StrCat("g", depth));
  AddUnknown(&graph, "in a graph");
  for (auto& tensor : AllFields(count, "i")) *graph.add_initializer() = tensor;
  auto* sparse = graph.add_sparse_initializer();
  *sparse->mutable_values() = AllFields(count, "v")[0];
  *sparse->mutable_indices() = AllFields(count, "x")[3];
  sparse->add_dims(1 << 20);
  AddUnknown(sparse, "in a sparse tensor");
  auto* node = graph.add_node();
  node->set_op_type("If");
  node->add_input("c");
  node->add_output("y");
  AddUnknown(node, "in a node");
  const auto attribute = [&](const char* name) {
    auto* result = node->add_attribute();
    result->set_name(name);
    AddUnknown(result, "in an attribute");
    return result;
  };
  *attribute("t")->mutable_t() = AllFields(count, "t")[4];
  auto* tensors = attribute("tensors");
  for (auto& tensor : AllFields(count, "l")) *tensors->add_tensors() = tensor;
  *attribute("sparse")->mutable_sparse_tensor() = *sparse;
  *attribute("sparses")->add_sparse_tensors() = *sparse;
  if (depth > 0) {
    *attribute("body")->mutable_g() = FullGraph(count, depth - 1);
    *attribute("bodies")->add_graphs() = FullGraph(count, depth - 1);
  }
  auto* input = graph.add_input();
  input->set_name("c");
  input->mutable_type()->mutable_tensor_type()->set_elem_type(9);
  return graph;
}

inline onnx::ModelProto FullModel(int count, int depth) {
  onnx::ModelProto model = EmptyModel();
  *model.mutable_graph() = FullGraph(count, depth);
  auto* function = model.add_functions();
  function->set_name("f");
  *function->add_node() = FullGraph(count, 0).node(0);
  *function->add_attribute_proto() = FullGraph(count, 0).node(0).attribute(0);
  AddUnknown(function, "in a function");
  auto* training = model.add_training_info();
  *training->mutable_initialization() = FullGraph(count, 0);
  *training->mutable_algorithm() = FullGraph(count, 0);
  AddUnknown(training, "in training info");
  auto* entry = model.add_metadata_props();
  entry->set_key("k");
  entry->set_value("v");
  AddUnknown(&model, "in the model");
  return model;
}

// Real models that may lie beside the checkout, or where the environment says.
inline std::vector<std::string> RealModels() {
  const char* folder = std::getenv("ONNX_MEMOPT_MODELS");
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(
           folder != nullptr ? folder : "../shared/models", ignored)) {
    if (entry.path().extension() == ".onnx") {
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_IO_MODEL_BUILDER_H_
