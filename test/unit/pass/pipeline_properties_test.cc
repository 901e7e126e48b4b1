// What holds for every pipeline on every graph: the bare peak in ONNX Runtime
// never rises, the outputs stay, what is exported can be read again, and doing
// it twice changes nothing more.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/weights.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/pass/pipeline.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "registry.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"

namespace onnx_memopt::passes {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::RandomGraphOptions;
using ::onnx_memopt::testing::RandomModel;
using ::onnx_memopt::testing::Runs;
using ModelPtr = std::shared_ptr<const io::LoadedModel>;

struct Optimized {
  onnx::ModelProto model;
  // Live bytes, in the order of the file.
  int64_t live_before = 0;
  int64_t live_after = 0;
  // In ONNX Runtime, without arena and pattern; 0 if a size is unknown.
  int64_t bare_before = 0;
  int64_t bare_after = 0;
  int64_t weights_before = 0;
  int64_t weights_after = 0;
  int changed = 0;  // passes that changed the graph
};

void Measure(const ir::Graph& graph, int64_t* live, int64_t* bare,
             int64_t* weights) {
  analysis::AnalysisManager analyses(&graph);
  const auto profile = analyses.Get<analysis::MemoryProfile>();
  *live = (*profile)->main().peak_bytes;
  if ((*profile)->complete()) {
    *bare = *PredictBarePeak(graph, analyses, rewrite::RewriteOptions());
  }
  *weights = (*analyses.Get<analysis::Weights>())->bytes();
}

Optimized RunOn(const onnx::ModelProto& source, const std::string& passes) {
  Optimized out;
  const auto model = io::FromProto(source, "");
  EXPECT_THAT(model, IsOk());
  auto graph = Import(*model, {});
  EXPECT_THAT(graph, IsOk());
  Measure(*graph, &out.live_before, &out.bare_before, &out.weights_before);
  const auto pipeline = pass::ParsePipeline(passes, RegisteredPasses());
  EXPECT_THAT(pipeline, IsOk());
  const auto runs = RunPipeline(*pipeline, *graph, {});
  EXPECT_THAT(runs, IsOk());
  for (const pass::PassRun& run : *runs) out.changed += run.changed ? 1 : 0;
  EXPECT_THAT(Verify(*graph), IsOk());
  Measure(*graph, &out.live_after, &out.bare_after, &out.weights_after);
  auto proto = io::Export(**model, *graph);
  EXPECT_THAT(proto, IsOk());
  out.model = *std::move(proto);
  return out;
}

std::string Differences(const onnx::ModelProto& a, const onnx::ModelProto& b) {
  std::string text;
  MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&text);
  differencer.Compare(a, b);
  return text;
}

class PipelinePropertiesTest
    : public ::testing::TestWithParam<RandomGraphOptions> {};

TEST_P(PipelinePropertiesTest, HoldOnRandomModels) {
  int changed = 0;
  int lower = 0;
  int found_more = 0;
  for (int i = 0; i < Runs(1000); ++i) {
    const uint64_t seed = 500'000 + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    const onnx::ModelProto source = RandomModel(seed, GetParam());
    const Optimized once = RunOn(source, kDefaultPipeline);
    // What is dead may be what let a file ask for a better order.
    const Optimized cleaned = RunOn(source, "drop-dead,share-initializers");
    EXPECT_LE(once.bare_after, cleaned.bare_after);
    EXPECT_LE(once.weights_after, once.weights_before);
    changed += once.changed;
    lower +=
        once.bare_after < once.bare_before || once.live_after < once.live_before
            ? 1
            : 0;

    ASSERT_EQ(once.model.graph().output_size(), source.graph().output_size());
    for (int o = 0; o < source.graph().output_size(); ++o) {
      EXPECT_EQ(once.model.graph().output(o).SerializeAsString(),
                source.graph().output(o).SerializeAsString());
    }
    ASSERT_EQ(once.model.graph().input_size(), source.graph().input_size());
    EXPECT_EQ(once.model.functions_size(), source.functions_size());

    const Optimized twice = RunOn(once.model, kDefaultPipeline);
    EXPECT_EQ(twice.live_before, once.live_after);
    if (twice.changed > 0) {
      // The search for an order may get further from where it got to.
      EXPECT_LE(twice.bare_after, once.bare_after);
      ++found_more;
      continue;
    }
    EXPECT_EQ(Differences(once.model, twice.model), "");
    if (HasFailure()) break;
  }
  EXPECT_GT(changed, Runs(300));
  EXPECT_GT(lower, Runs(50));
  EXPECT_LE(found_more, Runs(1000) / 50);
}

// What a pass adds to a graph: conditions, axes.
constexpr int64_t kScalars = 4096;

TEST_P(PipelinePropertiesTest, HoldForEachPassAlone) {
  for (const pass::PassInfo& info : RegisteredPasses()) {
    for (int i = 0; i < Runs(200); ++i) {
      const uint64_t seed = 600'000 + static_cast<uint64_t>(i);
      SCOPED_TRACE(seed);
      const onnx::ModelProto source = RandomModel(seed, GetParam());
      const Optimized out = RunOn(source, std::string(info.name));
      EXPECT_LE(out.bare_after, out.bare_before + kScalars) << info.name;
      EXPECT_LE(out.weights_after, out.weights_before + kScalars) << info.name;
      if (out.changed == 0) {
        EXPECT_EQ(Differences(source, out.model), "") << info.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, PipelinePropertiesTest,
    ::testing::Values(RandomGraphOptions{.max_nodes = 16},
                      RandomGraphOptions{.max_nodes = 10, .max_depth = 3},
                      RandomGraphOptions{.max_nodes = 12, .calls = true},
                      RandomGraphOptions{.max_nodes = 10,
                                         .max_depth = 2,
                                         .calls = true,
                                         .unknown_sizes = true,
                                         .named_dims = true}));

}  // namespace
}  // namespace onnx_memopt::passes
