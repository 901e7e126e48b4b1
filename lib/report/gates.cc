#include "onnx_memopt/report/gates.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/format.h"
#include "report/two_sizes.h"

namespace onnx_memopt {
namespace {

// Before and after for one set of sizes; `where` is empty unless it is a point
// of a sweep, else "seq=8: ".
struct Point {
  std::string where;
  const ReportPeak* before;
  const ReportPeak* after;  // null: no pass ran
};

std::vector<Point> PointsOf(const Report& report) {
  std::vector<Point> points;
  for (const ReportSweepPoint& point : report.sweep) {
    std::string where;
    for (const auto& [name, size] : point.dims) {
      absl::StrAppend(&where, where.empty() ? "" : ", ", Printable(name), "=",
                      size);
    }
    points.push_back({.where = absl::StrCat(where, ": "),
                      .before = &point.before,
                      .after = point.after ? &*point.after : nullptr});
  }
  if (points.empty()) {
    points.push_back({.before = &report.before,
                      .after = report.after ? &*report.after : nullptr});
  }
  return points;
}

}  // namespace

std::vector<std::string> FailedGates(const Report& report, const Gates& gates) {
  std::vector<std::string> failed;
  if (report.budget && !report.budget->met) {
    failed.push_back(absl::StrCat("the budget of ",
                                  FormatBytes(report.budget->bytes),
                                  " is not met: ", report.budget->reason));
  }
  const std::vector<Point> points = PointsOf(report);
  if (gates.max_peak_bytes) {
    const size_t failed_before = failed.size();
    for (const Point& point : points) {
      const int64_t total =
          (point.after != nullptr ? *point.after : *point.before).total_bytes;
      if (total <= *gates.max_peak_bytes) continue;
      failed.push_back(absl::StrCat(
          point.where, "weights, inputs and packed activations take ",
          TwoSizes(total, ", more than ", *gates.max_peak_bytes)));
    }
    if (failed.size() == failed_before && !report.complete) {
      failed.push_back(absl::StrCat("the size of ",
                                    report.unknown_tensors.size(),
                                    " tensors is unknown, so the peak is not"));
    }
  }
  if (gates.fail_on_growth && report.after) {
    const auto check = [&](absl::string_view where, absl::string_view what,
                           int64_t before, int64_t after) {
      if (after <= before) return;
      failed.push_back(absl::StrCat(where, "the ", what, " grew from ",
                                    TwoSizes(before, " to ", after)));
    };
    for (const Point& point : points) {
      if (point.after == nullptr) continue;
      check(point.where, "live peak", point.before->live_peak_bytes,
            point.after->live_peak_bytes);
      check(point.where, "packed peak", point.before->packed_peak_bytes,
            point.after->packed_peak_bytes);
    }
    check("", "size of the weights", report.weights.bytes,
          report.weights_after_bytes);
  }
  return failed;
}

}  // namespace onnx_memopt
