#include "onnx_memopt/report/diff.h"

#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/report/json.h"
#include "onnx_memopt/report/read_json.h"
#include "support/status_matchers.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

Report Example() {
  Report report;
  report.model = {.path = "m.onnx",
                  .sha256 = std::string(64, 'a'),
                  .opset = 18,
                  .nodes = 3,
                  .size_bytes = 500};
  report.dims = {{.name = "batch", .value = 2}};
  report.weights = {.bytes = 1000, .count = 2};
  report.weights_after_bytes = 800;
  report.inputs_bytes = 64;
  report.before = {.live_peak_bytes = 400,
                   .packed_peak_bytes = 400,
                   .total_bytes = 1464,
                   .peak_step = 1,
                   .peak_node = "wide",
                   .peak_op = "Concat",
                   .runtime_bare = {1, 2},
                   .runtime_default = {600, 700}};
  report.after = report.before;
  report.after->live_peak_bytes = 200;
  report.at_peak = {
      {.name = "big", .kind = "activation", .bytes = 150, .storage = 0},
      {.name = "small", .kind = "activation", .bytes = 50, .storage = 1}};
  report.tensors = report.at_peak;
  report.passes = {{.name = "reorder", .remarks = {"200 B less"}}};
  return report;
}

TEST(DiffTest, AReportIsReadAsItWasWritten) {
  Report report = Example();
  report.sweep = {{.dims = {{"batch", 2}},
                   .weights_bytes = 1000,
                   .before = report.before,
                   .after = report.after}};
  report.warnings = {"odd"};
  report.tensors[1].bytes.reset();
  report.tensors[1].graph = 3;
  report.tensors[1].shape = "[1, ?]";
  const std::string json = ReportToJson(report, "1.2.3");
  const absl::StatusOr<Report> read = ReportFromJson(json);
  ASSERT_THAT(read.status(), IsOk());
  EXPECT_EQ(ReportToJson(*read, "1.2.3"), json);
}

TEST(DiffTest, WhatIsNoReportIsRefusedWithTheField) {
  EXPECT_THAT(ReportFromJson("not JSON"),
              StatusIs(kInvalid, HasSubstr("no JSON report")));
  EXPECT_THAT(ReportFromJson("[1, 2]"),
              StatusIs(kInvalid, HasSubstr("no JSON report")));
  const std::string json = ReportToJson(Example(), "1.2.3");
  const auto with = [&](absl::string_view from, absl::string_view to) {
    const std::string changed = absl::StrReplaceAll(json, {{from, to}});
    EXPECT_NE(changed, json);
    return ReportFromJson(changed);
  };
  EXPECT_THAT(with("\"schema_version\": 1", "\"schema_version\": 2"),
              StatusIs(kInvalid, HasSubstr("schema_version: expected 1")));
  EXPECT_THAT(with("\"live_peak_bytes\": 400", "\"live_peak_bytes\": -1"),
              StatusIs(kInvalid, HasSubstr("before.live_peak_bytes")));
  EXPECT_THAT(with("\"live_peak_bytes\": 200",
                   "\"live_peak_bytes\": 18446744073709551615"),
              StatusIs(kInvalid, HasSubstr("after.live_peak_bytes")));
  EXPECT_THAT(with("\"inputs_bytes\"", "\"other\""),
              StatusIs(kInvalid, HasSubstr("inputs_bytes: expected it")));
  EXPECT_THAT(with("\"dims\": {", "\"dims\": 3, \"was\": {"),
              StatusIs(kInvalid, HasSubstr("dims: expected an object")));
  EXPECT_THAT(with("\"remarks\": [", "\"remarks\": [7, "),
              StatusIs(kInvalid, HasSubstr("passes[].remarks")));
  EXPECT_THAT(with("\"tensors\": [", "\"tensors\": [null, "), Not(IsOk()));
  EXPECT_THAT(ReportFromJson(std::string(100'000, '[')), Not(IsOk()));
}

TEST(DiffTest, EqualReportsDoNotDiffer) {
  const ReportDiff diff = DiffReports(Example(), Example());
  EXPECT_THAT(diff.at_peak, IsEmpty());
  EXPECT_THAT(diff.resized, IsEmpty());
  EXPECT_THAT(diff.notes, IsEmpty());
  EXPECT_THAT(Growth(diff, 0), IsEmpty());
  EXPECT_THAT(DiffToText(diff), Not(HasSubstr("%")));
}

TEST(DiffTest, SaysWhatGrewAndWhoIsNewAtThePeak) {
  Report b = Example();
  b.after->live_peak_bytes = 250;
  b.after->peak_node = "join";
  b.at_peak = {{.name = "big", .kind = "activation", .bytes = 200},
               {.name = "skip", .kind = "activation", .bytes = 50}};
  b.tensors = b.at_peak;
  b.passes[0].remarks = {"150 B less"};
  b.warnings = {"the file is odd"};
  const ReportDiff diff = DiffReports(Example(), b);
  EXPECT_THAT(DiffToText(diff),
              AllOf(HasSubstr("  activations, live at the peak         200 B  "
                              "      250 B  +25.0 %\n"),
                    HasSubstr("        150 B        200 B  big\n"),
                    HasSubstr("            -         50 B  skip\n"),
                    HasSubstr("         50 B            -  small\n"),
                    HasSubstr("the peak is at \"join\", not at \"wide\""),
                    HasSubstr("pass reorder: 150 B less, was: 200 B less"),
                    HasSubstr("new warning: the file is odd")));
  ASSERT_EQ(diff.resized.size(), 1u);
  EXPECT_EQ(diff.resized[0].name, "big");
  EXPECT_THAT(DiffToMarkdown(diff),
              AllOf(HasSubstr("| activations, live at the peak | 200 B | 250 B "
                              "| **+25.0 %** |\n"),
                    HasSubstr("| `skip` | - | 50 B |\n")));
}

TEST(DiffTest, GrowthIsHeldToAPercentage) {
  Report b = Example();
  b.after->live_peak_bytes = 210;                    // +5 %
  b.after->runtime_default.steady_peak_bytes = 707;  // +1 %
  b.model.size_bytes = 5000;                         // not held
  const ReportDiff diff = DiffReports(Example(), b);
  EXPECT_THAT(Growth(diff, 5), IsEmpty());
  EXPECT_THAT(Growth(diff, 4.9),
              ElementsAre("activations, live at the peak grew from 200 B to "
                          "210 B, by +5.0 %"));
  EXPECT_EQ(Growth(diff, 0).size(), 2u);
}

TEST(DiffTest, FromNothingAnyGrowthIsTooMuch) {
  Report a = Example();
  a.weights_after_bytes = 0;
  EXPECT_THAT(Growth(DiffReports(a, Example()), 1e9),
              ElementsAre("weights grew from 0 B to 800 B"));
}

TEST(DiffTest, APeakThatIsNotKnownMayHaveGrown) {
  Report b = Example();
  b.complete = false;
  b.unknown_tensors = {"t"};
  EXPECT_THAT(Growth(DiffReports(Example(), b), 100),
              ElementsAre(HasSubstr("incomplete")));
}

TEST(DiffTest, SweepsAreMatchedBySize) {
  Report a = Example();
  a.sweep = {{.dims = {{"seq", 1}}, .before = a.before},
             {.dims = {{"seq", 8}}, .before = a.before}};
  Report b = Example();
  b.sweep = {{.dims = {{"seq", 8}}, .before = b.before},
             {.dims = {{"seq", 9}}, .before = b.before}};
  b.sweep[0].before.live_peak_bytes = 800;
  const ReportDiff diff = DiffReports(a, b);
  ASSERT_EQ(diff.sweep.size(), 1u);
  EXPECT_THAT(Growth(diff, 10),
              Contains("live peak for seq=8 grew from 400 B to 800 B, by "
                       "+100.0 %"));
}

TEST(DiffTest, ReportsForOtherSizesAreSaidToBe) {
  Report b = Example();
  b.dims[0].value = 4;
  EXPECT_THAT(DiffToText(DiffReports(Example(), b)),
              HasSubstr("different sizes: batch=2 and batch=4"));
}

// Names come from models of strangers.
TEST(DiffTest, NamesAreNeitherMarkupNorTooWide) {
  const std::string name = "`|<b>@team](http://x)\n# " + std::string(300, 'n');
  Report b = Example();
  b.model.path = name;
  b.after->peak_node = name;
  b.at_peak[0].name = name;
  b.warnings = {name};
  b.passes[0].remarks = {name};
  b.dims[0].name = name;
  const ReportDiff diff = DiffReports(Example(), b);
  for (const std::string& line :
       std::vector<std::string>(absl::StrSplit(DiffToText(diff), '\n'))) {
    EXPECT_LE(line.size(), 80u) << line;
  }
  const std::string markdown = DiffToMarkdown(diff);
  EXPECT_THAT(markdown, Not(HasSubstr("\n# ")));
  bool inside_code = false;
  for (size_t i = 0; i < markdown.size(); ++i) {
    const bool escaped = i > 0 && markdown[i - 1] == '\\';
    if (markdown[i] == '`' && !escaped) inside_code = !inside_code;
    if (inside_code || markdown.substr(i, 2) != "<b") continue;
    EXPECT_TRUE(escaped) << markdown.substr(i, 20);
  }
  EXPECT_FALSE(inside_code);
}

}  // namespace
}  // namespace onnx_memopt
