// What changed between two reports, for reviews.
//
//   const ReportDiff diff = DiffReports(a, b);
//   std::cout << DiffToText(diff);
//   for (const std::string& reason : Growth(diff, /*max_percent=*/5)) ...
//
// Compared is what each report ends with: the model after the passes, or as it
// was read if none ran. Tensors are matched by name, sweeps by their sizes.
#ifndef ONNX_MEMOPT_REPORT_DIFF_H_
#define ONNX_MEMOPT_REPORT_DIFF_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onnx_memopt/report.h"

namespace onnx_memopt {

// One number of both reports.
struct DiffRow {
  std::string what;
  int64_t a = 0;
  int64_t b = 0;
  bool is_bytes = true;  // otherwise a count
  bool is_gated = true;  // Growth looks at it
};

// A tensor that differs; nullopt on a side where it is not.
struct DiffTensor {
  std::string name;
  std::optional<int64_t> a_bytes;
  std::optional<int64_t> b_bytes;
};

struct ReportDiff {
  std::string a_model;  // paths of the models
  std::string b_model;
  std::vector<DiffRow> rows;
  std::vector<DiffRow> sweep;  // live peaks, of the sizes that both have
  // What live at the peak of one and not of the other, or in another size; the
  // largest change first.
  std::vector<DiffTensor> at_peak;
  // Activations that both have in different sizes; the largest change first.
  std::vector<DiffTensor> resized;
  // In words: the node at the peak, sizes, what passes did, warnings.
  std::vector<std::string> notes;
  bool b_is_complete = true;  // false: peaks of `b` are lower bounds
};

ReportDiff DiffReports(const Report& a, const Report& b);

// At most 80 columns.
std::string DiffToText(const ReportDiff& diff);
// For comments in reviews; nothing in a name is markup.
std::string DiffToMarkdown(const ReportDiff& diff);

// One line for each number that grew by more than that, and one where the size
// of a tensor of `b` is unknown. What was 0 grows by any amount.
std::vector<std::string> Growth(const ReportDiff& diff, double max_percent);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_DIFF_H_
