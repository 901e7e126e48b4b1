#include "onnx_memopt/report/text.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt {
namespace {

constexpr size_t kWidth = 80;
// Warnings and formulas beyond these are counted only, unless asked for.
constexpr size_t kMaxWarnings = 5;
constexpr size_t kMaxFormulas = 3;
// Values that the backward pass reads.
constexpr size_t kMaxSaved = 5;

// A printable name in at most `width` columns.
std::string Name(absl::string_view name, size_t width) {
  return Ellipsize(Printable(name), width);
}

class TextWriter {
 public:
  TextWriter(const Report& report, const TextOptions& options)
      : report_(report), options_(options) {}

  std::string Write() {
    WriteHeader();
    WriteMemory();
    WritePeak();
    WriteSweep();
    WriteWeights();
    WritePasses();
    WriteTraining();
    WriteWarnings();
    return std::move(out_);
  }

 private:
  void Line(absl::string_view text) { absl::StrAppend(&out_, text, "\n"); }

  // Breaks at spaces; lines after the first are indented.
  void Wrapped(absl::string_view text, size_t indent) {
    const std::string printable = Printable(text);
    absl::string_view rest = printable;
    size_t lead = 0;
    while (!rest.empty()) {
      const size_t room = kWidth - lead;
      size_t cut = rest.size();
      if (rest.size() > room) {
        cut = rest.rfind(' ', room);
        if (cut == absl::string_view::npos || cut <= indent) cut = room;
      }
      Line(absl::StrCat(std::string(lead, ' '), rest.substr(0, cut)));
      rest.remove_prefix(cut);
      while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
      lead = indent;
    }
  }

  void WriteHeader() {
    const ReportModel& model = report_.model;
    Line(absl::StrCat(Name(model.path, kWidth - 36), ": ", model.nodes, " node",
                      model.nodes == 1 ? "" : "s", ", opset ", model.opset,
                      ", file ", FormatBytes(model.size_bytes)));
    std::vector<std::string> bound;
    std::vector<std::string> assumed;
    for (const ReportDim& dim : report_.dims) {
      (dim.assumed ? assumed : bound)
          .push_back(absl::StrCat(Name(dim.name, 40), "=", dim.value));
    }
    if (!bound.empty()) {
      Wrapped(absl::StrCat("dims: ", absl::StrJoin(bound, ", ")), 6);
    }
    if (!assumed.empty()) {
      Wrapped(absl::StrCat("dims assumed: ", absl::StrJoin(assumed, ", "),
                           "; bind them with --dim NAME=N"),
              6);
    }
    Line("");
  }

  void MemoryRow(absl::string_view label, int64_t before, int64_t after) {
    std::string row =
        absl::StrFormat("  %-31s %11s", label, FormatBytes(before));
    if (report_.after) {
      absl::StrAppendFormat(&row, " %12s", FormatBytes(after));
      const double change = before > 0
                                ? 100.0 * (static_cast<double>(after) /
                                               static_cast<double>(before) -
                                           1)
                                : 0;
      // What would read as 0.0 is left out.
      if (std::abs(change) >= 0.05) {
        absl::StrAppendFormat(&row, "  %+.1f %%", change);
      }
    }
    Line(row);
  }

  void WriteMemory() {
    Line(report_.after
             ? absl::StrFormat("%-32s %12s %12s", "memory", "before", "after")
             : "memory");
    const ReportPeak& before = report_.before;
    const ReportPeak& after = report_.after ? *report_.after : before;
    MemoryRow("weights", report_.weights.bytes, report_.weights_after_bytes);
    MemoryRow("inputs", report_.inputs_bytes, report_.inputs_bytes);
    MemoryRow("activations, live at the peak", before.live_peak_bytes,
              after.live_peak_bytes);
    MemoryRow("activations, packed in an arena", before.packed_peak_bytes,
              after.packed_peak_bytes);
    MemoryRow("total: weights, inputs, packed", before.total_bytes,
              after.total_bytes);
    Line("  Workspace of kernels and the runtime itself come on top.");
    if (before.runtime_default.first_peak_bytes > 0) {
      MemoryRow("in ONNX Runtime, first run",
                before.runtime_default.first_peak_bytes,
                after.runtime_default.first_peak_bytes);
      MemoryRow("in ONNX Runtime, later runs",
                before.runtime_default.steady_peak_bytes,
                after.runtime_default.steady_peak_bytes);
      Line("  Predicted: above the loaded model, with default options, and");
      Line("  without most of the runtime's own fusions.");
      WriteTime();
      WriteBudget();
      WriteSessionOptions();
    }
    if (!report_.complete) {
      const size_t count = report_.unknown_tensors.size();
      Wrapped(absl::StrCat("incomplete: the size of ", count, " tensor",
                           count == 1 ? "" : "s",
                           " is unknown, so that the peaks are lower bounds"),
              2);
      const size_t shown =
          options_.verbose ? count : std::min<size_t>(count, 3);
      for (size_t i = 0; i < shown; ++i) {
        Line(absl::StrCat("  ", Name(report_.unknown_tensors[i], kWidth - 2)));
      }
    }
    Line("");
  }

  void WriteTime() {
    if (!report_.time_ratio) return;
    const double percent = 100 * (*report_.time_ratio - 1);
    if (std::abs(percent) < 0.5) return;
    Line(absl::StrFormat("  A run takes %+.0f %% time, by the time model.",
                         percent));
  }

  void WriteBudget() {
    if (!report_.budget) return;
    const ReportBudget& budget = *report_.budget;
    Wrapped(absl::StrCat("  Budget ", FormatBytes(budget.bytes),
                         budget.met ? ": met" : ": not met: ", budget.reason),
            4);
  }

  // Where the defaults suit, there is nothing to say.
  void WriteSessionOptions() {
    if (report_.recommended_session >= report_.session_options.size() ||
        report_.recommended_session == 0) {
      return;
    }
    const ReportSessionOptions& best =
        report_.session_options[report_.recommended_session];
    std::vector<std::string> options;
    if (!best.enable_cpu_mem_arena)
      options.emplace_back("enable_cpu_mem_arena");
    if (!best.enable_mem_pattern) options.emplace_back("enable_mem_pattern");
    if (!best.enable_mem_reuse) options.emplace_back("enable_mem_reuse");
    std::string text = absl::StrJoin(options, ", ");
    if (!options.empty()) absl::StrAppend(&text, " off");
    if (best.execution_order != "DEFAULT") {
      absl::StrAppend(&text, options.empty() ? "" : ", ", best.execution_order);
    }
    Wrapped(absl::StrCat("  Session options ", text, ": ",
                         FormatBytes(best.peaks.steady_peak_bytes),
                         " in later runs",
                         // Else glibc keeps what is freed.
                         best.enable_cpu_mem_arena
                             ? ""
                             : ", with MALLOC_MMAP_THRESHOLD_=65536 in the "
                               "environment"),
            4);
  }

  void WritePeak() {
    const ReportPeak& peak = report_.after ? *report_.after : report_.before;
    if (peak.peak_step < 0) {
      Line("no activation is allocated");
      Line("");
      return;
    }
    Line(absl::StrCat("peak at step ", peak.peak_step, " of ",
                      report_.nodes.size(), ": ",
                      // A nameless node is called after its op.
                      absl::StartsWith(peak.peak_node, peak.peak_op + ":")
                          ? ""
                          : Name(peak.peak_op, 20) + " ",
                      Name(peak.peak_node, 30)));
    WriteFormulas(peak);
    // Empty tensors, which passes use to build conditions, say nothing here.
    std::vector<const ReportTensor*> tensors;
    for (const ReportTensor& tensor : report_.at_peak) {
      if (tensor.bytes != 0) tensors.push_back(&tensor);
    }
    if (!tensors.empty()) {
      Line(absl::StrFormat("  %10s  %-12s %-24s %s", "bytes", "live", "shape",
                           "tensor <- producer"));
    }
    const size_t shown = std::min(options_.max_tensors, tensors.size());
    for (size_t i = 0; i < shown; ++i) WriteTensor(*tensors[i]);
    if (shown < tensors.size()) {
      int64_t rest = 0;
      for (size_t i = shown; i < tensors.size(); ++i) {
        rest = SaturatingAdd(rest, tensors[i]->bytes.value_or(0));
      }
      Line(absl::StrFormat("  %10s  in %d more", FormatBytes(rest),
                           tensors.size() - shown));
    }
    WriteNested(peak);
    Line("");
  }

  // What the node at the peak allocates inside: the rows do not have it.
  void WriteNested(const ReportPeak& peak) {
    int64_t outside = 0;
    for (const ReportTensor& tensor : report_.at_peak) {
      outside = SaturatingAdd(outside, tensor.bytes.value_or(0));
    }
    if (peak.live_peak_bytes <= outside) return;
    Line(absl::StrFormat("  %10s  more in subgraphs of the node",
                         FormatBytes(peak.live_peak_bytes - outside)));
  }

  void WriteFormulas(const ReportPeak& peak) {
    const std::vector<std::string>& formulas = peak.live_peak_formulas;
    if (formulas.empty()) return;
    Line(formulas.size() == 1 ? "  bytes for any dims:"
                              : "  bytes for any dims, the largest of:");
    const size_t shown = options_.verbose
                             ? formulas.size()
                             : std::min(formulas.size(), kMaxFormulas);
    for (size_t i = 0; i < shown; ++i) {
      Line(absl::StrCat("    ", Name(formulas[i], kWidth - 4)));
    }
    if (shown < formulas.size()) {
      Line(absl::StrCat("    and ", formulas.size() - shown, " more (-v)"));
    }
  }

  // Where both do not fit, the longer one gives way first.
  static std::string NameAndProducer(const ReportTensor& tensor) {
    constexpr size_t kRoom = 28;
    const std::string name = Printable(tensor.name);
    const std::string producer = Printable(tensor.producer);
    if (producer.empty()) return Ellipsize(name, kRoom);
    constexpr size_t kHalf = (kRoom - 4) / 2;
    const size_t name_room =
        producer.size() < kHalf ? kRoom - 4 - producer.size() : kHalf;
    const std::string shown = Ellipsize(name, name_room);
    return absl::StrCat(shown, " <- ",
                        Ellipsize(producer, kRoom - 4 - shown.size()));
  }

  void WriteTensor(const ReportTensor& tensor) {
    const std::string live =
        absl::StrCat("[", tensor.begin, ", ", tensor.end, ")");
    const std::string shape =
        absl::StrCat(tensor.dtype, Printable(tensor.shape));
    Line(absl::StrFormat("  %10s  %-12s %-24s %s",
                         tensor.bytes ? FormatBytes(*tensor.bytes) : "?",
                         Ellipsize(live, 12), Ellipsize(shape, 24),
                         NameAndProducer(tensor)));
  }

  void WriteSweep() {
    if (report_.sweep.empty()) return;
    Line(absl::StrFormat("%-32s %12s %12s %12s", "sweep", "live",
                         report_.after ? "live after" : "",
                         report_.after ? "packed after" : "packed"));
    for (const ReportSweepPoint& point : report_.sweep) {
      std::vector<std::string> dims;
      dims.reserve(point.dims.size());
      for (const auto& [name, value] : point.dims) {
        dims.push_back(absl::StrCat(name, "=", value));
      }
      const ReportPeak& last = point.after ? *point.after : point.before;
      Line(absl::StrFormat("  %-30s %12s %12s %12s",
                           Name(absl::StrJoin(dims, " "), 30),
                           FormatBytes(point.before.live_peak_bytes),
                           point.after ? FormatBytes(last.live_peak_bytes) : "",
                           FormatBytes(last.packed_peak_bytes)));
    }
    Line("");
  }

  void WriteWeights() {
    const std::vector<std::string>& notes = report_.weights.notes;
    if (notes.empty()) return;
    Line("weights");
    const size_t shown =
        options_.verbose ? notes.size() : std::min(notes.size(), kMaxWarnings);
    for (size_t i = 0; i < shown; ++i) {
      Wrapped(absl::StrCat("  ", notes[i]), 4);
    }
    if (shown < notes.size()) {
      Line(absl::StrCat("  and ", notes.size() - shown, " more (-v)"));
    }
    Line("");
  }

  void WritePasses() {
    if (report_.passes.empty()) return;
    Line("passes");
    for (const ReportPass& pass : report_.passes) {
      std::string line = absl::StrFormat("  %-20s ", pass.name);
      if (pass.remarks.empty()) {
        absl::StrAppend(&line, pass.changed ? "changed" : "nothing to gain");
      } else {
        absl::StrAppend(&line, absl::StrJoin(pass.remarks, "; "));
      }
      if (options_.verbose) {
        absl::StrAppendFormat(&line, " (%.3f s)", pass.seconds);
      }
      Wrapped(line, 23);
    }
    Line("");
  }

  void WriteTraining() {
    if (!report_.training) return;
    const ReportTraining& training = *report_.training;
    Line("training");
    if (!training.reason.empty()) {
      Wrapped(absl::StrCat("  none: ", training.reason), 4);
      Line("");
      return;
    }
    Line(absl::StrFormat("  %-31s %11s", "saved for backward",
                         FormatBytes(training.saved_bytes)));
    const size_t shown = std::min(training.saved.size(), kMaxSaved);
    for (size_t i = 0; i < shown; ++i) {
      const ReportSavedValue& value = training.saved[i];
      Line(absl::StrFormat("    %-29s %11s  %s", Name(value.name, 29),
                           FormatBytes(value.bytes), Name(value.module, 30)));
    }
    if (shown < training.saved.size()) {
      Line(absl::StrCat("    and ", training.saved.size() - shown, " more"));
    }
    for (const ReportTrainingPlan& plan : training.plans) {
      Line(absl::StrFormat("  %-31s %11s  %+.1f %% time",
                           plan.added_time > 0 ? "a step with checkpoints takes"
                                               : "a step takes",
                           FormatBytes(plan.peak_bytes),
                           100 * plan.added_time));
    }
    Line("");
  }

  void WriteWarnings() {
    const std::vector<std::string>& warnings = report_.warnings;
    const size_t shown = options_.verbose
                             ? warnings.size()
                             : std::min(warnings.size(), kMaxWarnings);
    for (size_t i = 0; i < shown; ++i) {
      Wrapped(absl::StrCat("warning: ", warnings[i]), 2);
    }
    if (shown < warnings.size()) {
      Line(
          absl::StrCat("warning: and ", warnings.size() - shown, " more (-v)"));
    }
    if (!warnings.empty()) Line("");
  }

  const Report& report_;
  const TextOptions& options_;
  std::string out_;
};

}  // namespace

std::string ReportToText(const Report& report, const TextOptions& options) {
  return TextWriter(report, options).Write();
}

}  // namespace onnx_memopt
