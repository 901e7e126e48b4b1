#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/report/text.h"

namespace onnx_memopt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Report Example() {
  Report report;
  report.model = {
      .path = "models/small.onnx", .opset = 18, .nodes = 3, .size_bytes = 2048};
  report.dims = {{.name = "batch", .value = 8},
                 {.name = "seq", .value = 1, .assumed = true}};
  report.weights.bytes = 1 << 20;
  report.weights_after_bytes = 1 << 19;
  report.inputs_bytes = 100;
  report.before = {.live_peak_bytes = 4096,
                   .packed_peak_bytes = 5000,
                   .total_bytes = (1 << 20) + 100 + 5000,
                   .peak_step = 1,
                   .peak_node = "join",
                   .peak_op = "Concat",
                   .live_peak_formulas = {"4*seq + 8"}};
  report.after = report.before;
  report.after->live_peak_bytes = 2048;
  report.after->total_bytes = (1 << 19) + 100 + 5000;
  report.nodes.resize(3);
  report.at_peak = {{.name = "big",
                     .producer = "conv",
                     .dtype = "float",
                     .shape = "[16, 32]",
                     .bytes = 2048,
                     .begin = 0,
                     .end = 2}};
  report.passes = {{.name = "drop-dead"},
                   {.name = "reorder",
                    .changed = true,
                    .seconds = 0.25,
                    .remarks = {"live peak 4.00 KiB -> 2.00 KiB"}}};
  return report;
}

TEST(TextReportTest, SaysWhatItIsWhatItTakesAndWhatWasDone) {
  EXPECT_EQ(ReportToText(Example(), {}),
            "models/small.onnx: 3 nodes, opset 18, file 2.00 KiB\n"
            "dims: batch=8\n"
            "dims assumed: seq=1; bind them with --dim NAME=N\n"
            "\n"
            "memory                                 before        after\n"
            "  weights                            1.00 MiB      512 KiB"
            "  -50.0 %\n"
            "  inputs                                100 B        100 B\n"
            "  activations, live at the peak      4.00 KiB     2.00 KiB"
            "  -50.0 %\n"
            "  activations, packed in an arena    4.88 KiB     4.88 KiB\n"
            "  total: weights, inputs, packed     1.00 MiB      517 KiB"
            "  -49.8 %\n"
            "  Workspace of kernels and the runtime itself come on top.\n"
            "\n"
            "peak at step 1 of 3: Concat join\n"
            "  bytes for any dims:\n"
            "    4*seq + 8\n"
            "       bytes  live         shape                    tensor <- "
            "producer\n"
            "    2.00 KiB  [0, 2)       float[16, 32]            big <- conv\n"
            "\n"
            "passes\n"
            "  drop-dead            nothing to gain\n"
            "  reorder              live peak 4.00 KiB -> 2.00 KiB\n"
            "\n");
}

TEST(TextReportTest, SecondsOnlyWhenAskedFor) {
  EXPECT_THAT(ReportToText(Example(), {}), Not(HasSubstr("0.250 s")));
  EXPECT_THAT(ReportToText(Example(), {.verbose = true}),
              HasSubstr("(0.250 s)"));
}

TEST(TextReportTest, SumsUpWhatIsNotShown) {
  Report report = Example();
  report.at_peak.resize(5, report.at_peak.front());
  EXPECT_THAT(ReportToText(report, {.max_tensors = 2}),
              HasSubstr("    6.00 KiB  in 3 more\n"));
}

TEST(TextReportTest, EmptyTensorsAreNotListed) {
  Report report = Example();
  report.at_peak.resize(2, report.at_peak.front());
  report.at_peak.back().name = "nothing";
  report.at_peak.back().bytes = 0;
  EXPECT_THAT(ReportToText(report, {}), Not(HasSubstr("nothing <-")));
  EXPECT_THAT(ReportToText(report, {.max_tensors = 1}),
              Not(HasSubstr(" more")));
  report.at_peak.back().bytes = std::nullopt;
  EXPECT_THAT(ReportToText(report, {}), HasSubstr("nothing <-"));
}

TEST(TextReportTest, UnknownSizesAreNamed) {
  Report report = Example();
  report.complete = false;
  report.unknown_tensors = {"a", "b", "c", "d"};
  const std::string text = ReportToText(report, {});
  EXPECT_THAT(text, AllOf(HasSubstr("the size of 4 tensors is unknown"),
                          HasSubstr("\n  c\n"), Not(HasSubstr("\n  d\n"))));
  EXPECT_THAT(ReportToText(report, {.verbose = true}), HasSubstr("\n  d\n"));
}

TEST(TextReportTest, NothingAllocated) {
  EXPECT_THAT(ReportToText(Report(), {}),
              HasSubstr("no activation is allocated\n"));
}

TEST(TextReportTest, SweepsHaveALinePerPoint) {
  Report report = Example();
  report.sweep = {
      {.dims = {{"batch", 1}, {"seq", 128}},
       .before = {.live_peak_bytes = 1024, .packed_peak_bytes = 2048}}};
  EXPECT_THAT(ReportToText(report, {}), HasSubstr("batch=1 seq=128"));
}

// Names come from a file: long, or with control characters, or no UTF-8.
TEST(TextReportTest, FitsEightyColumnsWhateverTheNames) {
  Report report = Example();
  const std::string name(300, 'n');
  report.model.path = name;
  report.dims.push_back({.name = name, .value = 3});
  report.after->peak_node = name;
  report.after->peak_op = name;
  report.after->live_peak_formulas.assign(9, name);
  report.at_peak[0].name = name;
  report.at_peak[0].producer = name;
  report.at_peak[0].shape = name;
  report.complete = false;
  report.unknown_tensors = {name, "\x1b[2J\xff"};
  report.passes[1].remarks = {name + " " + name, "short words of a remark"};
  report.warnings.assign(20, "the file says that \"" + name + "\" is wrong");
  report.weights.notes.assign(20, name);
  report.sweep = {{.dims = {{name, 1}}}};
  for (const bool verbose : {false, true}) {
    const std::string text = ReportToText(report, {.verbose = verbose});
    for (const std::string& line :
         std::vector<std::string>(absl::StrSplit(text, '\n'))) {
      EXPECT_LE(line.size(), 80u) << line;
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
      EXPECT_EQ(line.find('\xff'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace onnx_memopt
