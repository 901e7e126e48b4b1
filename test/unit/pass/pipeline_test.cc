#include "onnx_memopt/pass/pipeline.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/time_model.h"
#include "registry.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"

namespace onnx_memopt::pass {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// Does what a test tells it to.
class Scripted final : public Pass {
 public:
  using Action = absl::StatusOr<bool> (*)(ir::Graph&, PassContext&);
  explicit Scripted(Action action) : action_(action) {}
  absl::string_view name() const override { return "scripted"; }
  absl::StatusOr<bool> Run(ir::Graph& graph, PassContext& context) override {
    return action_(graph, context);
  }

 private:
  Action action_;
};

Pipeline Script(Scripted::Action action) {
  Pipeline pipeline;
  pipeline.push_back(std::make_unique<Scripted>(action));
  return pipeline;
}

absl::StatusOr<std::unique_ptr<Pass>> MakeNumbered(PassOptions& options) {
  const auto number = options.Int("number", 5, "a number");
  if (!number.ok()) return number.status();
  const auto flag = options.Bool("flag", true, "a flag");
  if (!flag.ok()) return flag.status();
  return std::make_unique<Scripted>(
      [](ir::Graph&, PassContext&) -> absl::StatusOr<bool> { return false; });
}

absl::StatusOr<std::unique_ptr<Pass>> MakePlain(PassOptions& /*options*/) {
  return std::make_unique<Scripted>(
      [](ir::Graph&, PassContext&) -> absl::StatusOr<bool> { return false; });
}

constexpr PassInfo kKnown[] = {{"numbered", "has options", &MakeNumbered},
                               {"plain", "has none", &MakePlain}};

TEST(ParsePipelineTest, ReadsListsOptionsAndBlanks) {
  const struct {
    const char* text;
    size_t passes;
  } cases[] = {{"", 0},
               {"  ", 0},
               {"plain", 1},
               {" plain , plain ", 2},
               {"numbered{number=3,flag=false},plain", 2},
               {"numbered{ number = 3 , flag = 1 }", 1},
               {"numbered{}", 1},
               {"plain,numbered {number=0}", 2}};
  for (const auto& c : cases) {
    const auto pipeline = ParsePipeline(c.text, kKnown);
    ASSERT_THAT(pipeline, IsOk()) << c.text;
    EXPECT_EQ(pipeline->size(), c.passes) << c.text;
  }
}

TEST(ParsePipelineTest, SaysWhatIsWrong) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"nothing",
       "there is no pass \"nothing\"; the passes are numbered, "
       "plain"},
      {"plain,", "there is no pass \"\""},
      {",plain", "there is no pass \"\""},
      {"Plain", "there is no pass \"Plain\""},
      {"numbered{number=3", "\"}\" is missing at the end"},
      {"numbered}", "unexpected \"}\" at character 9"},
      {"numbered{{number=3}}", "unexpected \"{\" at character 10"},
      {"numbered{number=3}x", "unexpected text after \"}\""},
      {"numbered{count=3}",
       "pass numbered has no option \"count\"; it has number, flag"},
      {"plain{count=3}", "pass plain has no option \"count\"; it has none"},
      {"numbered{number=three}",
       "option number is \"three\"; expected a "
       "non-negative integer"},
      {"numbered{number=-1}", "option number is \"-1\""},
      {"numbered{number=99999999999999999999}", "option number"},
      {"numbered{number}", "option number is \"\""},
      {"numbered{flag=maybe}",
       "option flag is \"maybe\"; expected true or "
       "false"},
      {"a\nb", "there is no pass \"a\\x0ab\""},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(ParsePipeline(c.text, kKnown),
                StatusIs(kInvalid, HasSubstr(c.message)))
        << c.text;
  }
}

TEST(ParsePipelineTest, KnowsTheRegisteredPassesAndTheirOptions) {
  EXPECT_THAT(
      ParsePipeline(passes::kDefaultPipeline, passes::RegisteredPasses()),
      IsOk());
  EXPECT_THAT(
      ParsePipeline("reorder{depth=3}", passes::RegisteredPasses()),
      StatusIs(kInvalid, AllOf(HasSubstr("exact-nodes"), HasSubstr("beam"),
                               HasSubstr("max-states"))));
  EXPECT_THAT(
      ParsePipeline("reorder{exact-nodes=9999999999,beam=0,max-states=0}",
                    passes::RegisteredPasses()),
      IsOk());
  for (const PassInfo& info : passes::RegisteredPasses()) {
    EXPECT_FALSE(info.summary.empty());
    for (const PassOptions::Declaration& option : DescribeOptions(info)) {
      EXPECT_FALSE(option.help.empty());
      // A default is a valid value.
      EXPECT_THAT(ParsePipeline(std::string(info.name) + "{" + option.key +
                                    "=" + option.default_text + "}",
                                passes::RegisteredPasses()),
                  IsOk());
    }
  }
}

TEST(DescribeOptionsTest, GivesDefaults) {
  const auto options = DescribeOptions(kKnown[0]);
  ASSERT_EQ(options.size(), 2u);
  EXPECT_EQ(options[0].key, "number");
  EXPECT_EQ(options[0].default_text, "5");
  EXPECT_EQ(options[1].default_text, "true");
  EXPECT_TRUE(DescribeOptions(kKnown[1]).empty());
}

TEST(RunPipelineTest, ReportsChangesAndRemarksAndCallsTheObserver) {
  ir::Graph graph = RandomGraph(1, {});
  std::vector<std::string> observed;
  PipelineOptions options;
  options.observer = [&](absl::string_view pass, const ir::Graph&) {
    observed.emplace_back(pass);
  };
  const auto runs = RunPipeline(
      Script([](ir::Graph&, PassContext& context) -> absl::StatusOr<bool> {
        context.Remark("kept");
        return true;
      }),
      graph, options);
  ASSERT_THAT(runs, IsOk());
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ(runs->front().name, "scripted");
  EXPECT_TRUE(runs->front().changed);
  EXPECT_THAT(runs->front().remarks, ElementsAre("kept"));
  EXPECT_THAT(observed, ElementsAre("", "scripted"));
}

TEST(RunPipelineTest, NamesThePassThatFailed) {
  ir::Graph graph = RandomGraph(1, {});
  EXPECT_THAT(
      RunPipeline(Script([](ir::Graph&, PassContext&) -> absl::StatusOr<bool> {
                    return absl::UnavailableError("no room");
                  }),
                  graph, {}),
      StatusIs(absl::StatusCode::kUnavailable, "pass scripted: no room"));
}

TEST(RunPipelineTest, NamesThePassThatBrokeTheGraph) {
  ir::Graph graph = RandomGraph(3, {.min_nodes = 4});
  EXPECT_THAT(RunPipeline(Script([](ir::Graph& g,
                                    PassContext&) -> absl::StatusOr<bool> {
                            auto& nodes = g.mutable_block(ir::kMainBlock).nodes;
                            nodes.push_back(nodes.front());
                            return true;
                          }),
                          graph, {}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("pass scripted broke the graph: tensor ")));
}

TEST(PipelineTest, APassIsToldWhatIsAskedOfIt) {
  ir::Graph graph = RandomGraph(7, {.max_nodes = 30});
  analysis::AnalysisManager analyses(&graph);
  const double seconds =
      (*analyses.Get<analysis::TimeModel>())->total_seconds();
  static double seen_seconds = 0;
  static Goals seen;
  const Pipeline pipeline =
      Script([](ir::Graph&, PassContext& context) -> absl::StatusOr<bool> {
        seen = context.goals();
        seen_seconds = context.max_seconds();
        return false;
      });
  ASSERT_THAT(RunPipeline(pipeline, graph,
                          {.goals = {.max_slowdown = 0.5, .budget_bytes = 9}}),
              IsOk());
  EXPECT_EQ(seen.max_slowdown, 0.5);
  EXPECT_EQ(seen.budget_bytes, 9);
  // And the little that nobody sees.
  EXPECT_GE(seen_seconds, 1.5 * seconds);
  EXPECT_LE(seen_seconds, 1.5 * seconds + 1e-3);
  ASSERT_THAT(RunPipeline(pipeline, graph, {}), IsOk());
  EXPECT_EQ(seen.max_slowdown, 0.1);
  EXPECT_FALSE(seen.budget_bytes.has_value());
}

}  // namespace
}  // namespace onnx_memopt::pass
