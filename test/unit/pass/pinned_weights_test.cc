// Weights that the model names outside its nodes stay, and keep their names.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/pass/pipeline.h"
#include "registry.h"
#include "support/status_matchers.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::pass {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportModel;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::ParseText;
using ::testing::ElementsAre;

// `dead` is read by nobody, `first` and `second` are equal.
onnx::ModelProto Model() {
  return ParseText(R"(
    g (float[2] x) => (float[2] y)
    <float[1] dead = {3}, float[1] first = {1}, float[1] second = {1}> {
      a = Add(x, first)
      y = Mul(a, second)
    })");
}

std::vector<std::string> KeptWeights(const onnx::ModelProto& model) {
  Imported m = ImportModel(model);
  EXPECT_THAT(m.status, IsOk());
  const auto pipeline =
      ParsePipeline("drop-dead,share-initializers", passes::RegisteredPasses());
  EXPECT_THAT(pipeline, IsOk());
  EXPECT_THAT(RunPipeline(*pipeline, m.graph, {}), IsOk());
  const auto out = io::Export(*m.model, m.graph);
  EXPECT_THAT(out, IsOk());
  std::vector<std::string> names;
  for (const onnx::TensorProto& tensor : out->graph().initializer()) {
    names.push_back(tensor.name());
  }
  return names;
}

TEST(PinnedWeightsTest, WithoutOtherNamesTheyGo) {
  EXPECT_THAT(KeptWeights(Model()), ElementsAre("first"));
}

TEST(PinnedWeightsTest, AQuantizationAnnotationKeepsWhatItNames) {
  onnx::ModelProto model = Model();
  auto* annotation = model.mutable_graph()->add_quantization_annotation();
  annotation->set_tensor_name("x");
  for (const char* name : {"dead", "second"}) {
    auto* entry = annotation->add_quant_parameter_tensor_names();
    entry->set_key("SCALE_TENSOR");
    entry->set_value(name);
  }
  EXPECT_THAT(KeptWeights(model), ElementsAre("dead", "first", "second"));
}

TEST(PinnedWeightsTest, TrainingKeepsAll) {
  onnx::ModelProto model = Model();
  model.add_training_info()->mutable_algorithm()->set_name("step");
  EXPECT_THAT(KeptWeights(model), ElementsAre("dead", "first", "second"));
}

}  // namespace
}  // namespace onnx_memopt::pass
