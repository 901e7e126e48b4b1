#include "onnx_memopt/report/gates.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// 100 live, 120 packed, and with weights and inputs 1,000; all the same after.
Report Example() {
  Report report;
  report.weights.bytes = report.weights_after_bytes = 800;
  report.before = {
      .live_peak_bytes = 100, .packed_peak_bytes = 120, .total_bytes = 1'000};
  report.after = report.before;
  return report;
}

TEST(GatesTest, NoGateFailsNothing) {
  Report report = Example();
  report.after->live_peak_bytes = 1'000'000;
  report.complete = false;
  EXPECT_THAT(FailedGates(report, {}), IsEmpty());
}

TEST(GatesTest, ThePeakMayBeAsHighAsTheGate) {
  EXPECT_THAT(FailedGates(Example(), {.max_peak_bytes = 1'000}), IsEmpty());
  EXPECT_THAT(FailedGates(Example(), {.max_peak_bytes = 999}),
              ElementsAre("weights, inputs and packed activations take 1000 B, "
                          "more than 999 B"));
}

TEST(GatesTest, ThePeakIsThatOfTheRewriteIfThereIsOne) {
  Report report = Example();
  report.after->total_bytes = 900;
  EXPECT_THAT(FailedGates(report, {.max_peak_bytes = 950}), IsEmpty());
  report.after.reset();
  EXPECT_THAT(FailedGates(report, {.max_peak_bytes = 950}),
              ElementsAre(HasSubstr("1000 B")));
}

TEST(GatesTest, APeakThatIsNotKnownIsNotBelowTheGate) {
  Report report = Example();
  report.complete = false;
  report.unknown_tensors = {"a", "b"};
  EXPECT_THAT(FailedGates(report, {.max_peak_bytes = 1'000}),
              ElementsAre(HasSubstr("2 tensors is unknown")));
  EXPECT_THAT(FailedGates(report, {.fail_on_growth = true}), IsEmpty());
}

TEST(GatesTest, ABudgetThatIsNotMetSaysWhatHoldsIt) {
  Report report = Example();
  report.budget = {.bytes = 1 << 20,
                   .reached_bytes = 3 << 20,
                   .met = false,
                   .reason = "the output is 2 MiB"};
  EXPECT_THAT(FailedGates(report, {}),
              ElementsAre("the budget of 1.00 MiB is not met: the output is 2 "
                          "MiB"));
  report.budget->met = true;
  EXPECT_THAT(FailedGates(report, {}), IsEmpty());
}

TEST(GatesTest, EachKindOfGrowthIsNamed) {
  EXPECT_THAT(FailedGates(Example(), {.fail_on_growth = true}), IsEmpty());
  Report report = Example();
  report.after->live_peak_bytes = 101;
  report.after->packed_peak_bytes = 121;
  report.weights_after_bytes = 801;
  EXPECT_THAT(FailedGates(report, {.fail_on_growth = true}),
              ElementsAre("the live peak grew from 100 B to 101 B",
                          "the packed peak grew from 120 B to 121 B",
                          "the size of the weights grew from 800 B to 801 B"));
  report.after.reset();
  EXPECT_THAT(FailedGates(report, {.fail_on_growth = true}), IsEmpty());
}

TEST(GatesTest, EveryPointOfASweepIsHeldToThem) {
  Report report = Example();
  report.sweep = {
      {.dims = {{"batch", 1}, {"seq", 8}}, .before = report.before},
      {.dims = {{"batch", 2}, {"seq", 8}}, .before = report.before}};
  for (ReportSweepPoint& point : report.sweep) point.after = point.before;
  EXPECT_THAT(
      FailedGates(report, {.max_peak_bytes = 1'000, .fail_on_growth = true}),
      IsEmpty());
  report.sweep[0].after->live_peak_bytes = 101;
  report.sweep[1].after->total_bytes = 1'001;
  EXPECT_THAT(
      FailedGates(report, {.max_peak_bytes = 1'000, .fail_on_growth = true}),
      ElementsAre(StartsWith("batch=2, seq=8: weights"),
                  "batch=1, seq=8: the live peak grew from 100 B to "
                  "101 B"));
}

}  // namespace
}  // namespace onnx_memopt
