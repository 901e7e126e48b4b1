// The report as a few lines of HTML, for notebooks. Names of a model are text:
// nothing in them is markup.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "bindings.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::python {
namespace {

constexpr size_t kMaxTensors = 10;

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text), {{"&", "&amp;"},
                                               {"<", "&lt;"},
                                               {">", "&gt;"},
                                               {"\"", "&quot;"},
                                               {"'", "&#39;"}});
}

std::string Cell(absl::string_view text) {
  return absl::StrCat("<td style=\"text-align: right\">", text, "</td>");
}

class Summary {
 public:
  explicit Summary(const Report& report) : report_(report) {}

  std::string Write() {
    absl::StrAppend(&html_, "<div class=\"onnx-memopt\"><p><b>",
                    Escaped(report_.model.path), "</b>: ", report_.model.nodes,
                    " nodes, opset ", report_.model.opset);
    for (const ReportDim& dim : report_.dims) {
      absl::StrAppend(&html_, ", ", Escaped(dim.name), "=", dim.value,
                      dim.assumed ? " (assumed)" : "");
    }
    absl::StrAppend(&html_, "</p>");
    Memory();
    AtPeak();
    for (const std::string& warning : report_.warnings) {
      absl::StrAppend(&html_, "<p>warning: ", Escaped(warning), "</p>");
    }
    absl::StrAppend(&html_, "</div>\n");
    return std::move(html_);
  }

 private:
  void Row(absl::string_view what, int64_t before,
           std::optional<int64_t> after) {
    absl::StrAppend(&html_, "<tr><th style=\"text-align: left\">", what,
                    "</th>", Cell(FormatBytes(before)));
    if (after) {
      absl::StrAppend(&html_, Cell(FormatBytes(*after)));
      const double change = before == 0
                                ? 0
                                : 100 * static_cast<double>(*after - before) /
                                      static_cast<double>(before);
      absl::StrAppend(
          &html_, Cell(*after == before ? std::string()
                                        : absl::StrFormat("%+.1f %%", change)));
    }
    absl::StrAppend(&html_, "</tr>");
  }

  template <typename Get>
  void PeakRow(absl::string_view what, Get get) {
    Row(what, get(report_.before),
        report_.after ? std::optional<int64_t>(get(*report_.after))
                      : std::nullopt);
  }

  void Memory() {
    absl::StrAppend(&html_, "<table><thead><tr><th></th><th>",
                    report_.after ? "before</th><th>after</th><th>" : "bytes",
                    "</th></tr></thead><tbody>");
    Row("weights", report_.weights.bytes,
        report_.after ? std::optional(report_.weights_after_bytes)
                      : std::nullopt);
    PeakRow("activations, live at the peak",
            [](const ReportPeak& peak) { return peak.live_peak_bytes; });
    PeakRow("activations, packed",
            [](const ReportPeak& peak) { return peak.packed_peak_bytes; });
    PeakRow("in ONNX Runtime, first run", [](const ReportPeak& peak) {
      return peak.runtime_default.first_peak_bytes;
    });
    PeakRow("in ONNX Runtime, later runs", [](const ReportPeak& peak) {
      return peak.runtime_default.steady_peak_bytes;
    });
    absl::StrAppend(&html_, "</tbody></table>");
    if (!report_.complete) {
      absl::StrAppend(&html_, "<p>The size of ", report_.unknown_tensors.size(),
                      " tensors is unknown: peaks are lower bounds.</p>");
    }
  }

  void AtPeak() {
    if (report_.at_peak.empty()) return;
    absl::StrAppend(
        &html_,
        "<details><summary>tensors at the peak</summary><table><thead><tr>"
        "<th>bytes</th><th>tensor</th><th>type</th></tr></thead><tbody>");
    const size_t shown = std::min(report_.at_peak.size(), kMaxTensors);
    for (size_t i = 0; i < shown; ++i) {
      const ReportTensor& tensor = report_.at_peak[i];
      absl::StrAppend(
          &html_, "<tr>",
          Cell(tensor.bytes ? FormatBytes(*tensor.bytes) : "unknown"), "<td>",
          Escaped(tensor.name), "</td><td>", Escaped(tensor.dtype),
          Escaped(tensor.shape), "</td></tr>");
    }
    absl::StrAppend(&html_, "</tbody></table>");
    if (shown < report_.at_peak.size()) {
      absl::StrAppend(&html_, "<p>and ", report_.at_peak.size() - shown,
                      " more</p>");
    }
    absl::StrAppend(&html_, "</details>");
  }

  const Report& report_;
  std::string html_;
};

}  // namespace

std::string ReportToSummary(const Report& report) {
  return Summary(report).Write();
}

}  // namespace onnx_memopt::python
