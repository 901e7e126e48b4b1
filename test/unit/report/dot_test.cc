#include "onnx_memopt/report/dot.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// x -> n0 -> t0 -> n1 -> t1 -> ... ; each tensor has 1 KiB. A node is called
// after `scope`(index).
template <typename Scope>
Report Chain(int64_t count, Scope scope) {
  Report report;
  report.tensors.push_back({.name = "x", .kind = "input", .bytes = 1024});
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = absl::StrCat(scope(i), "n", i);
    report.nodes.push_back({.index = i,
                            .name = name,
                            .op = i % 2 == 0 ? "Exp" : "Neg",
                            .live_bytes = 2048 + i,
                            .inputs = {i},
                            .outputs = {i + 1}});
    report.tensors.push_back({.name = absl::StrCat("t", i),
                              .producer = name,
                              .kind = "activation",
                              .bytes = 1024});
  }
  return report;
}

std::string NoScope(int64_t /*i*/) { return ""; }

// Lines that draw a box, or an arrow.
size_t Count(const std::string& dot, const std::string& what) {
  size_t count = 0;
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(dot, '\n'))) {
    if (line.find(what) != std::string::npos) ++count;
  }
  return count;
}

TEST(DotTest, ABoxForEachNodeAndAnArrowForEachTensor) {
  const std::string dot = ReportToDot(Chain(3, NoScope));
  EXPECT_THAT(dot, AllOf(HasSubstr("label=\"Exp\\nn0\\nlive 2.00 KiB\""),
                         HasSubstr("in0 -> b0 [label=\"1.00 KiB\"];"),
                         HasSubstr("b0 -> b1 [label=\"1.00 KiB\"];"),
                         HasSubstr("b1 -> b2 [label=\"1.00 KiB\"];")));
  EXPECT_EQ(Count(dot, "fillcolor=\"#"), 3u);
  EXPECT_EQ(Count(dot, "->"), 3u);
}

TEST(DotTest, ASizeThatIsUnknownIsNoNumber) {
  Report report = Chain(2, NoScope);
  report.tensors[1].bytes.reset();
  EXPECT_THAT(ReportToDot(report), HasSubstr("b0 -> b1 [label=\"?\"];"));
}

// 40 nodes in 10 blocks of 2 layers: there is room for the blocks alone.
TEST(DotTest, ALargeGraphIsDrawnByScope) {
  const Report report = Chain(40, [](int64_t i) {
    return absl::StrCat("/block", i / 4, "/layer", i / 2, "/");
  });
  const std::string dot = ReportToDot(report, {.max_boxes = 15});
  EXPECT_EQ(Count(dot, "fillcolor=\"#"), 10u);
  EXPECT_THAT(dot, HasSubstr("/block3\\n4 nodes: 2 Exp, 2 Neg\\npeak"));
  // Inside a block nothing is drawn: 9 arrows between them, 1 from the input.
  EXPECT_EQ(Count(dot, "->"), 10u);
  EXPECT_EQ(Count(ReportToDot(report, {.max_boxes = 25}), "fillcolor=\"#"),
            20u);
}

TEST(DotTest, WithoutScopesRunsOfNodesAreDrawn) {
  const std::string dot = ReportToDot(Chain(100, NoScope), {.max_boxes = 10});
  EXPECT_EQ(Count(dot, "fillcolor=\"#"), 10u);
  EXPECT_THAT(dot, HasSubstr("steps 10 to 19\\n10 nodes: 5 Exp, 5 Neg"));
}

TEST(DotTest, ASubgraphIsAFrameBesideItsNode) {
  Report report = Chain(2, NoScope);
  report.nodes[1].graphs = {1};
  report.inner_nodes = {
      {.index = 0, .name = "inside", .op = "Sin", .graph = 1, .inputs = {1}}};
  const std::string dot = ReportToDot(report);
  EXPECT_THAT(
      dot, AllOf(HasSubstr("subgraph cluster_1 {"),
                 HasSubstr("label=\"subgraph of n1\""), HasSubstr("b0 -> b2")));
}

TEST(DotTest, NamesCannotLeaveTheirString) {
  Report report = Chain(1, NoScope);
  report.nodes[0].name = "a\"];\nevil [label=\"\\";
  report.tensors[0].name = "\"; x -> y; \"";
  const std::string dot = ReportToDot(report);
  EXPECT_THAT(dot, AllOf(Not(HasSubstr("\nevil")), HasSubstr("a\\\"];"),
                         HasSubstr("\\\"; x -> y; \\\"")));
}

}  // namespace
}  // namespace onnx_memopt
