#include "onnx_memopt/report/diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "report/two_sizes.h"

namespace onnx_memopt {
namespace {

// Lines of a list; the rest is counted.
constexpr size_t kMaxTensors = 10;
constexpr size_t kMaxName = 60;

const ReportPeak& Last(const Report& report) {
  return report.after ? *report.after : report.before;
}

int64_t Distance(const DiffTensor& tensor) {
  const int64_t a = tensor.a_bytes.value_or(0);
  const int64_t b = tensor.b_bytes.value_or(0);
  return std::max(a, b) - std::min(a, b);
}

void LargestFirst(std::vector<DiffTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(),
            [](const DiffTensor& a, const DiffTensor& b) {
              const int64_t of_a = Distance(a);
              const int64_t of_b = Distance(b);
              return of_a != of_b ? of_a > of_b : a.name < b.name;
            });
}

// By name; of a name that several graphs have, the sum.
using Sizes = std::map<std::string, std::optional<int64_t>>;

void Add(const ReportTensor& tensor, Sizes* sizes) {
  const auto [it, added] = sizes->try_emplace(tensor.name, tensor.bytes);
  if (added) return;
  it->second = it->second && tensor.bytes
                   ? std::optional(SaturatingAdd(*it->second, *tensor.bytes))
                   : std::nullopt;
}

std::vector<DiffTensor> Differences(const Sizes& a, const Sizes& b,
                                    bool only_common) {
  std::vector<DiffTensor> tensors;
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      if (!only_common) tensors.push_back({.name = name, .a_bytes = bytes});
    } else if (other->second != bytes) {
      tensors.push_back(
          {.name = name, .a_bytes = bytes, .b_bytes = other->second});
    }
  }
  if (!only_common) {
    for (const auto& [name, bytes] : b) {
      if (a.contains(name)) continue;
      tensors.push_back({.name = name, .b_bytes = bytes});
    }
  }
  LargestFirst(&tensors);
  return tensors;
}

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", Ellipsize(Printable(name), kMaxName), "\"");
}

std::string DimsToString(
    const std::vector<std::pair<std::string, int64_t>>& dims) {
  std::vector<std::string> parts;
  parts.reserve(dims.size());
  for (const auto& [name, size] : dims) {
    parts.push_back(absl::StrCat(Ellipsize(Printable(name), 30), "=", size));
  }
  return absl::StrJoin(parts, " ");
}

std::string DimsOf(const Report& report) {
  std::vector<std::pair<std::string, int64_t>> dims;
  dims.reserve(report.dims.size());
  for (const ReportDim& dim : report.dims) {
    dims.emplace_back(dim.name, dim.value);
  }
  return DimsToString(dims);
}

class Comparison {
 public:
  Comparison(const Report& a, const Report& b) : a_(a), b_(b) {}

  ReportDiff Compare() {
    diff_.a_model = a_.model.path;
    diff_.b_model = b_.model.path;
    diff_.b_is_complete = b_.complete;
    AddRows();
    AddSweep();
    AddTensors();
    AddNotes();
    return std::move(diff_);
  }

 private:
  void AddRows() {
    const ReportPeak& a = Last(a_);
    const ReportPeak& b = Last(b_);
    diff_.rows = {
        {"weights", a_.weights_after_bytes, b_.weights_after_bytes},
        {"inputs", a_.inputs_bytes, b_.inputs_bytes},
        {"activations, live at the peak", a.live_peak_bytes, b.live_peak_bytes},
        {"activations, packed in an arena", a.packed_peak_bytes,
         b.packed_peak_bytes},
        {"total: weights, inputs, packed", a.total_bytes, b.total_bytes},
        {"in ONNX Runtime, first run", a.runtime_default.first_peak_bytes,
         b.runtime_default.first_peak_bytes},
        {"in ONNX Runtime, later runs", a.runtime_default.steady_peak_bytes,
         b.runtime_default.steady_peak_bytes},
        {.what = "model file, as read",
         .a = a_.model.size_bytes,
         .b = b_.model.size_bytes,
         .is_gated = false},
        {.what = "nodes, as read",
         .a = a_.model.nodes,
         .b = b_.model.nodes,
         .is_bytes = false,
         .is_gated = false},
        {.what = "floating-point operations",
         .a = a_.total_flops,
         .b = b_.total_flops,
         .is_bytes = false,
         .is_gated = false}};
  }

  void AddSweep() {
    const auto live = [](const ReportSweepPoint& point) {
      return (point.after ? *point.after : point.before).live_peak_bytes;
    };
    for (const ReportSweepPoint& b : b_.sweep) {
      const auto a = std::find_if(
          a_.sweep.begin(), a_.sweep.end(),
          [&](const ReportSweepPoint& point) { return point.dims == b.dims; });
      if (a == a_.sweep.end()) continue;
      diff_.sweep.push_back(
          {.what = DimsToString(b.dims), .a = live(*a), .b = live(b)});
    }
  }

  void AddTensors() {
    Sizes a;
    Sizes b;
    for (const ReportTensor& tensor : a_.at_peak) Add(tensor, &a);
    for (const ReportTensor& tensor : b_.at_peak) Add(tensor, &b);
    diff_.at_peak = Differences(a, b, /*only_common=*/false);
    a.clear();
    b.clear();
    for (const ReportTensor& tensor : a_.tensors) {
      if (tensor.kind == "activation") Add(tensor, &a);
    }
    for (const ReportTensor& tensor : b_.tensors) {
      if (tensor.kind == "activation") Add(tensor, &b);
    }
    diff_.resized = Differences(a, b, /*only_common=*/true);
  }

  void Note(std::string text) { diff_.notes.push_back(std::move(text)); }

  void AddNotes() {
    if (DimsOf(a_) != DimsOf(b_)) {
      Note(absl::StrCat("the reports are for different sizes: ",
                        DimsOf(a_).empty() ? "none" : DimsOf(a_), " and ",
                        DimsOf(b_).empty() ? "none" : DimsOf(b_)));
    }
    if (a_.after.has_value() != b_.after.has_value()) {
      Note(absl::StrCat("passes ran only in the ",
                        a_.after ? "first" : "second"));
    }
    if (!b_.complete) {
      Note(absl::StrCat("the size of ", b_.unknown_tensors.size(),
                        b_.unknown_tensors.size() == 1 ? " tensor" : " tensors",
                        " is unknown: the second's peaks are lower bounds"));
    }
    const ReportPeak& a = Last(a_);
    const ReportPeak& b = Last(b_);
    if (a.peak_node != b.peak_node) {
      Note(absl::StrCat("the peak is at ", Quoted(b.peak_node), ", not at ",
                        Quoted(a.peak_node)));
    }
    NotePasses();
    for (const std::string& warning : b_.warnings) {
      if (std::find(a_.warnings.begin(), a_.warnings.end(), warning) ==
          a_.warnings.end()) {
        Note(absl::StrCat("new warning: ", Printable(warning)));
      }
    }
  }

  void NotePasses() {
    for (const ReportPass& b : b_.passes) {
      const auto a = std::find_if(
          a_.passes.begin(), a_.passes.end(),
          [&](const ReportPass& pass) { return pass.name == b.name; });
      if (a == a_.passes.end() && !a_.after) continue;
      if (a == a_.passes.end()) {
        Note(absl::StrCat("pass ", Printable(b.name),
                          " ran only in the second"));
      } else if (a->remarks != b.remarks) {
        Note(absl::StrCat(
            "pass ", Printable(b.name), ": ",
            b.remarks.empty() ? "nothing to gain"
                              : Printable(absl::StrJoin(b.remarks, "; ")),
            ", was: ",
            a->remarks.empty() ? "nothing to gain"
                               : Printable(absl::StrJoin(a->remarks, "; "))));
      }
    }
  }

  const Report& a_;
  const Report& b_;
  ReportDiff diff_;
};

std::string Amount(const DiffRow& row, int64_t amount) {
  return row.is_bytes ? FormatBytes(amount) : FormatCount(amount);
}

std::string Size(const std::optional<int64_t>& bytes) {
  return bytes ? FormatBytes(*bytes) : "?";
}

double Percent(const DiffRow& row) {
  if (row.a == row.b) return 0;
  if (row.a == 0) return std::numeric_limits<double>::infinity();
  // 210 are 5 % more than 200, and nothing above.
  return 100.0 * static_cast<double>(row.b - row.a) /
         static_cast<double>(row.a);
}

// Empty where nothing changed.
std::string Change(const DiffRow& row) {
  if (row.a == row.b) return "";
  if (row.a == 0) return "new";
  const double percent = Percent(row);
  // Small changes are changes.
  if (std::abs(percent) < 0.05) return row.b > row.a ? "+0 %" : "-0 %";
  return absl::StrFormat("%+.1f %%", percent);
}

void TextRows(const std::vector<DiffRow>& rows, std::string* out) {
  for (const DiffRow& row : rows) {
    absl::StrAppendFormat(out, "  %-31s %11s %12s", Ellipsize(row.what, 31),
                          Amount(row, row.a), Amount(row, row.b));
    const std::string change = Change(row);
    absl::StrAppend(out, change.empty() ? "" : "  ", change, "\n");
  }
}

void TextTensors(absl::string_view title,
                 const std::vector<DiffTensor>& tensors, std::string* out) {
  if (tensors.empty()) return;
  absl::StrAppend(out, "\n", title, "\n");
  const size_t shown = std::min(tensors.size(), kMaxTensors);
  for (size_t i = 0; i < shown; ++i) {
    const DiffTensor& tensor = tensors[i];
    absl::StrAppendFormat(out, "  %11s %12s  %s\n",
                          tensor.a_bytes ? Size(tensor.a_bytes) : "-",
                          tensor.b_bytes ? Size(tensor.b_bytes) : "-",
                          Ellipsize(Printable(tensor.name), 50));
  }
  if (shown < tensors.size()) {
    absl::StrAppend(out, "  and ", tensors.size() - shown, " more\n");
  }
}

// Words of a note, in lines of at most 80 columns.
void TextNote(absl::string_view note, std::string* out) {
  constexpr size_t kWidth = 78;
  absl::string_view lead = "- ";
  while (!note.empty()) {
    size_t cut = note.size();
    if (note.size() > kWidth) {
      cut = note.rfind(' ', kWidth);
      if (cut == absl::string_view::npos || cut == 0) cut = kWidth;
    }
    absl::StrAppend(out, lead, note.substr(0, cut), "\n");
    note.remove_prefix(cut);
    while (absl::StartsWith(note, " ")) note.remove_prefix(1);
    lead = "  ";
  }
}

// A name as code: nothing in it ends the code, the cell of a table or the line.
std::string Code(absl::string_view name) {
  const std::string shown = absl::StrReplaceAll(
      Ellipsize(Printable(name), kMaxName), {{"`", "'"}, {"|", "\\|"}});
  return absl::StrCat("`", shown.empty() ? " " : shown, "`");
}

// Words of the tool with names among them: markup is escaped.
std::string Escaped(absl::string_view text) {
  std::string out;
  for (const char c : text) {
    if (absl::string_view("\\`*_{}[]<>()#+!|~@&").find(c) !=
        absl::string_view::npos) {
      // Neither a mention nor an entity can be escaped by a backslash.
      if (c == '@') {
        out.append("&#64;");
        continue;
      }
      if (c == '&') {
        out.append("&amp;");
        continue;
      }
      out.push_back('\\');
    }
    out.push_back(c);
  }
  return out;
}

void MarkdownRows(const std::vector<DiffRow>& rows, std::string* out) {
  for (const DiffRow& row : rows) {
    const std::string change = Change(row);
    absl::StrAppend(out, "| ", Escaped(row.what), " | ", Amount(row, row.a),
                    " | ", Amount(row, row.b), " | ",
                    change.empty() ? "" : absl::StrCat("**", change, "**"),
                    " |\n");
  }
}

void MarkdownTensors(absl::string_view title,
                     const std::vector<DiffTensor>& tensors, std::string* out) {
  if (tensors.empty()) return;
  absl::StrAppend(out, "\n<details><summary>", title, " (", tensors.size(),
                  ")</summary>\n\n| tensor | first | second |\n"
                  "|---|---:|---:|\n");
  const size_t shown = std::min(tensors.size(), kMaxTensors);
  for (size_t i = 0; i < shown; ++i) {
    const DiffTensor& tensor = tensors[i];
    absl::StrAppend(out, "| ", Code(tensor.name), " | ",
                    tensor.a_bytes ? Size(tensor.a_bytes) : "-", " | ",
                    tensor.b_bytes ? Size(tensor.b_bytes) : "-", " |\n");
  }
  if (shown < tensors.size()) {
    absl::StrAppend(out, "| and ", tensors.size() - shown, " more | | |\n");
  }
  absl::StrAppend(out, "\n</details>\n");
}

}  // namespace

ReportDiff DiffReports(const Report& a, const Report& b) {
  return Comparison(a, b).Compare();
}

std::string DiffToText(const ReportDiff& diff) {
  std::string out =
      absl::StrFormat("%-33s %11s %12s\n", "memory", "first", "second");
  TextRows(diff.rows, &out);
  if (!diff.sweep.empty()) {
    absl::StrAppend(&out, "\nsweep, live peak\n");
    TextRows(diff.sweep, &out);
  }
  TextTensors("tensors at the peak", diff.at_peak, &out);
  TextTensors("activations of another size", diff.resized, &out);
  if (!diff.notes.empty()) out.append("\n");
  for (const std::string& note : diff.notes) TextNote(note, &out);
  return out;
}

std::string DiffToMarkdown(const ReportDiff& diff) {
  std::string out =
      absl::StrCat("### Memory of ", Code(diff.b_model),
                   diff.a_model == diff.b_model
                       ? ""
                       : absl::StrCat(", compared with ", Code(diff.a_model)),
                   "\n\n| | first | second | change |\n|---|---:|---:|---:|\n");
  MarkdownRows(diff.rows, &out);
  if (!diff.sweep.empty()) {
    absl::StrAppend(&out,
                    "\n| live peak for | first | second | change |\n"
                    "|---|---:|---:|---:|\n");
    MarkdownRows(diff.sweep, &out);
  }
  if (!diff.notes.empty()) out.append("\n");
  for (const std::string& note : diff.notes) {
    absl::StrAppend(&out, "- ", Escaped(note), "\n");
  }
  MarkdownTensors("Tensors at the peak", diff.at_peak, &out);
  MarkdownTensors("Activations of another size", diff.resized, &out);
  return out;
}

std::vector<std::string> Growth(const ReportDiff& diff, double max_percent) {
  std::vector<std::string> failed;
  const auto check = [&](const DiffRow& row, absl::string_view where) {
    if (!row.is_gated || Percent(row) <= max_percent) return;
    failed.push_back(absl::StrCat(
        where, row.what, " grew from ", TwoSizes(row.a, " to ", row.b),
        row.a == 0 ? "" : ", by ", row.a == 0 ? "" : Change(row)));
  };
  for (const DiffRow& row : diff.rows) check(row, "");
  for (const DiffRow& row : diff.sweep) check(row, "live peak for ");
  if (!diff.b_is_complete) {
    failed.emplace_back(
        "the second report is incomplete: its peaks are lower bounds");
  }
  return failed;
}

}  // namespace onnx_memopt
