// Models in ONNX's text syntax, imported, for tests.
//
//   Imported m = ImportText(R"(g (float[n] x) => (float[n] y) {
//     y = Relu(x) })", {.dims = {{"n", 3}}});
//   EXPECT_EQ(m.Type("y"), "float[3]");
#ifndef ONNX_MEMOPT_TEST_UNIT_IO_IMPORT_TEXT_H_
#define ONNX_MEMOPT_TEST_UNIT_IO_IMPORT_TEXT_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "onnx/defs/parser.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::testing {

// `text` is a graph, and functions after it; opset 18.
inline onnx::ModelProto ParseText(const std::string& text) {
  const std::string full = absl::StrCat(
      "<ir_version: 9, opset_import: [\"\" : 18, \"local\" : 1]>\n", text);
  onnx::ModelProto model;
  onnx::OnnxParser parser(full.c_str());
  const auto status = parser.Parse(model);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return model;
}

struct Imported {
  absl::Status status;
  std::shared_ptr<const io::LoadedModel> model;
  ir::Graph graph;

  ir::ValueId Find(const std::string& name) const {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const ir::ValueId id{static_cast<uint32_t>(i)};
      if (graph.value(id).name == name) return id;
    }
    ADD_FAILURE() << "no value " << name;
    return ir::ValueId(0);
  }
  std::string Type(const std::string& name) const {
    return ToString(graph.value(Find(name)).type);
  }
};

inline Imported ImportModel(const onnx::ModelProto& proto,
                            const io::ImportOptions& options = {}) {
  Imported out;
  auto model = io::FromProto(proto, "");
  out.status = model.status();
  if (!model.ok()) return out;
  out.model = *std::move(model);
  auto graph = io::Import(out.model, options);
  out.status = graph.status();
  if (graph.ok()) out.graph = *std::move(graph);
  return out;
}

inline Imported ImportText(const std::string& text,
                           const io::ImportOptions& options = {}) {
  Imported out = ImportModel(ParseText(text), options);
  EXPECT_TRUE(out.status.ok()) << out.status.ToString();
  return out;
}

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_IO_IMPORT_TEXT_H_
