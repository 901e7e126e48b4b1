// An estimate as a person reads it: at most 80 columns, the answer first.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/estimate_report.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kBars = 16;
constexpr size_t kMostAdvice = 14;
constexpr size_t kMostStages = 16;

class Writer {
 public:
  explicit Writer(const EstimateReport& report) : r_(report) {}

  std::string Write() {
    Header();
    Terms();
    Timeline();
    AtPeak();
    PerGpu();
    Checkpoints();
    Rule();
    Fits();
    Batches();
    Advice();
    Allocators();
    Notes();
    return std::move(out_);
  }

 private:
  void Line(absl::string_view text) {
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    absl::StrAppend(&out_, text, "\n");
  }
  void Title(absl::string_view text) {
    absl::StrAppend(&out_, "\n", text, "\n");
  }
  // Breaks at spaces; all lines but the first are indented.
  void Wrapped(absl::string_view text, size_t first, size_t indent) {
    std::string line(first, ' ');
    bool empty = true;
    const std::string printable = Printable(text);
    size_t begin = 0;
    while (begin < printable.size()) {
      size_t end = printable.find(' ', begin);
      if (end == std::string::npos) end = printable.size();
      const std::string word =
          Ellipsize(printable.substr(begin, end - begin), kWidth - indent);
      if (!empty && line.size() + 1 + word.size() > kWidth) {
        Line(line);
        line.assign(indent, ' ');
        empty = true;
      }
      absl::StrAppend(&line, empty ? "" : " ", word);
      empty = false;
      begin = end + 1;
    }
    Line(line);
  }
  static std::string Left(absl::string_view text, size_t width) {
    std::string cell = Ellipsize(Printable(text), width);
    cell.resize(std::max(cell.size(), width), ' ');
    return cell;
  }
  static std::string Right(const std::string& text, size_t width) {
    return text.size() >= width ? text
                                : std::string(width - text.size(), ' ') + text;
  }
  static std::string Bytes(int64_t bytes) {
    return Right(FormatBytes(bytes), 10);
  }

  void Header() {
    Line(absl::StrCat(Ellipsize(Printable(r_.path), 48), ": ",
                      FormatCount(r_.parameters), " parameters"));
    Wrapped(r_.setup, 0, 2);
    std::vector<std::string> dims;
    dims.reserve(r_.dims.size());
    for (const auto& [name, size] : r_.dims) {
      dims.push_back(absl::StrCat(Printable(name), "=", size));
    }
    if (!dims.empty())
      Wrapped(absl::StrCat("dims: ", absl::StrJoin(dims, ", ")), 0, 6);
    out_ += '\n';
    Wrapped(absl::StrCat("needs ", FormatBytes(r_.total_bytes),
                         r_.gpus > 1 ? " on the fullest GPU" : " of GPU memory",
                         Verdict()),
            0, 2);
    if (r_.gpus > 1) {
      Wrapped(absl::StrCat("all ", r_.gpus,
                           " GPUs together: ", FormatBytes(r_.pooled_bytes)),
              0, 2);
    }
    if (r_.host_bytes > 0) {
      Line(absl::StrCat("in the host's memory: ", FormatBytes(r_.host_bytes)));
    }
  }

  std::string Verdict() const {
    if (!r_.budget_bytes) return "";
    const int64_t left = *r_.budget_bytes - r_.total_bytes;
    return left >= 0 ? absl::StrCat(": fits ", r_.budget_name, " with ",
                                    FormatBytes(left), " to spare")
                     : absl::StrCat(": does not fit ", r_.budget_name, ", ",
                                    FormatBytes(-left), " too much");
  }

  void Terms() {
    Title(absl::StrCat("What takes it at the peak (", r_.peak_phase,
                       r_.gpus > 1 ? ", fullest GPU):" : "):"));
    for (const EstimateTerm& term : r_.terms) {
      Line(absl::StrCat("  ", Left(term.name, 24), Bytes(term.bytes), "  ",
                        Ellipsize(term.formula, 41)));
    }
    Line(absl::StrCat("  ", Left("total", 24), Bytes(r_.total_bytes)));
    if (!r_.peak_unit.empty()) {
      Line(absl::StrCat("  at ", Ellipsize(Printable(r_.peak_unit), 72)));
    }
    if (r_.recompute_overhead > 0) {
      Line(absl::StrFormat("  recomputation: %.0f%% more arithmetic in a step",
                           100 * r_.recompute_overhead));
    }
  }

  // The highest moment of each of some equal parts of the step.
  void Timeline() {
    if (r_.timeline.size() < 2) return;
    Title("Live memory over the step:");
    int64_t highest = 1;
    for (const EstimatePoint& p : r_.timeline) {
      highest = std::max(highest, p.live_bytes);
    }
    const size_t points = r_.timeline.size();
    const size_t bars = std::min(kBars, points);
    for (size_t i = 0; i < bars; ++i) {
      const size_t begin = i * points / bars;
      const size_t end = std::max(begin + 1, (i + 1) * points / bars);
      size_t best = begin;
      for (size_t j = begin; j < end; ++j) {
        if (r_.timeline[j].live_bytes > r_.timeline[best].live_bytes) best = j;
      }
      const EstimatePoint& p = r_.timeline[best];
      constexpr size_t kBarWidth = 46;
      const auto width = static_cast<size_t>(
          std::llround(kBarWidth * static_cast<double>(p.live_bytes) /
                       static_cast<double>(highest)));
      const std::string phase = p.recompute ? "recompute" : p.phase;
      Line(absl::StrCat("  ", Left(phase, 15), Bytes(p.live_bytes), "  ",
                        std::string(width, '#')));
    }
  }

  void AtPeak() {
    if (r_.at_peak.empty()) return;
    Title("Largest tensors at the peak:");
    for (const EstimateTensor& tensor : r_.at_peak) {
      Line(absl::StrCat("  ", Left(tensor.name, 46), Bytes(tensor.bytes), "  ",
                        Ellipsize(tensor.category, 20)));
    }
  }

  void PerGpu() {
    if (r_.per_gpu.size() < 2 && r_.gpus < 2) return;
    Title("Each GPU:");
    Line(
        "  GPUs      parameters      states  activations  in flight       "
        "total");
    for (size_t i = 0; i < r_.per_gpu.size(); ++i) {
      const EstimateGpuRow& row = r_.per_gpu[i];
      if (i >= kMostStages && !row.fullest) continue;
      Line(absl::StrCat(
          "  ", Left(row.gpus, 10), Right(FormatCount(row.parameters), 10),
          "  ", Bytes(row.states_bytes), "   ", Bytes(row.saved_bytes),
          Right(absl::StrCat(row.in_flight), 11), "  ", Bytes(row.total_bytes),
          row.fullest ? "  fullest" : ""));
    }
    if (r_.per_gpu.size() > kMostStages) {
      Line(absl::StrCat("  ... ", r_.per_gpu.size(),
                        " stages; all in the JSON"));
    }
  }

  void Checkpoints() {
    if (!r_.checkpoints.empty()) {
      Title("Computed again in backward:");
      for (size_t i = 0; i < std::min(kMostStages, r_.checkpoints.size());
           ++i) {
        const EstimateCheckpoint& c = r_.checkpoints[i];
        Line(absl::StrCat("  ", Left(c.first, 30), " .. ", Left(c.last, 30),
                          Right(absl::StrCat(c.units), 6), " units"));
      }
      if (r_.checkpoints.size() > kMostStages) {
        Line(absl::StrCat("  ... ", r_.checkpoints.size() - kMostStages,
                          " more; all in the JSON"));
      }
    }
    if (r_.checkpoint_curve.size() < 2) return;
    Title("Memory against recomputation:");
    for (const EstimateCurvePoint& point : r_.checkpoint_curve) {
      Line(absl::StrCat(
          "  ", Bytes(point.total_bytes),
          absl::StrFormat("  %+3.0f%% arithmetic  ", 100 * point.overhead),
          point.flags));
    }
  }

  void Rule() {
    if (r_.rule_of_thumb.empty()) return;
    Title("The rule of thumb, M = 4 N + A B + S, on one GPU:");
    for (const EstimateTerm& term : r_.rule_of_thumb) {
      Line(absl::StrCat("  ", Left(term.name, 24), Bytes(term.bytes), "  ",
                        term.formula));
    }
    Line(absl::StrCat("  ", Left("M", 24), Bytes(r_.rule_of_thumb_bytes)));
    if (r_.rule_of_thumb_bytes > 0) {
      Line(absl::StrFormat("  this estimate is %.2f times that:",
                           static_cast<double>(r_.total_bytes) /
                               static_cast<double>(r_.rule_of_thumb_bytes)));
    }
    for (const std::string& note : r_.rule_of_thumb_notes) {
      Wrapped(absl::StrCat("- ", note), 2, 4);
    }
    if (r_.published.empty()) return;
    Title("Formulas of other tools for this set-up:");
    for (const EstimateTerm& term : r_.published) {
      Line(absl::StrCat("  ", Left(term.name, 24), Bytes(term.bytes), "  ",
                        Ellipsize(term.formula, 41)));
    }
  }

  void Fits() {
    if (r_.fits.empty()) return;
    Title("GPUs, and the cheapest changes that make it fit:");
    for (const EstimateFit& fit : r_.fits) {
      std::string text;
      if (fit.fits) {
        text = absl::StrCat("fits, ", FormatBytes(fit.free_bytes), " free");
      } else if (fit.changes.empty()) {
        text = absl::StrCat("no: ", FormatBytes(-fit.free_bytes), " missing");
      } else {
        text = absl::StrCat("with ", absl::StrJoin(fit.changes, ", "), ": ",
                            FormatBytes(fit.changed_total_bytes));
      }
      Wrapped(
          absl::StrCat(Left(fit.gpu, 17), Bytes(fit.memory_bytes), "  ", text),
          2, 31);
    }
  }

  void Batches() {
    if (!r_.max_batch) return;
    Title(absl::StrCat("Largest batch on ", r_.budget_name, ":"));
    if (*r_.max_batch == 0) {
      Line("  none: not even one sample fits");
    } else {
      Line(absl::StrCat("  ", *r_.max_batch, " samples a GPU"));
    }
    if (r_.buckets.empty()) return;
    if (r_.max_length) {
      Wrapped(absl::StrCat("longest ", Printable(r_.length_name),
                           " with batch ", r_.batch, ": ", *r_.max_length,
                           ", if the model takes as much"),
              2, 4);
    }
    Line(absl::StrCat("  by length (", Printable(r_.length_name),
                      "), for dynamic batching:"));
    for (const EstimateBucket& bucket : r_.buckets) {
      Line(absl::StrCat("  ", Right(absl::StrCat(bucket.length), 10),
                        "  batch ", bucket.batch));
    }
  }

  void AdviceLine(const EstimateAdvice& row) {
    Line(
        absl::StrCat("  ", Left(row.change, 48), Bytes(row.total_bytes),
                     Right(absl::StrCat(row.saved_bytes < 0 ? "+" : "-",
                                        FormatBytes(std::abs(row.saved_bytes))),
                           15)));
    Wrapped(row.flags.empty() ? row.cost
                              : absl::StrCat(row.flags, "  (", row.cost, ")"),
            4, 6);
  }

  void Advice() {
    if (r_.advice.empty()) return;
    Title("What would change it, the largest effect first:");
    Line(absl::StrCat("  ", Left("change, and what it costs", 48), "     total",
                      "    against now"));
    for (size_t i = 0; i < std::min(kMostAdvice, r_.advice.size()); ++i) {
      AdviceLine(r_.advice[i]);
    }
    if (r_.advice.size() > kMostAdvice) {
      Line(absl::StrCat("  ... and ", r_.advice.size() - kMostAdvice,
                        " more; all in the JSON"));
    }
    if (!r_.combination) return;
    Wrapped(absl::StrCat("together, on the same GPUs and the same model: ",
                         r_.combination->change, " give ",
                         FormatBytes(r_.combination->total_bytes), " (",
                         r_.combination->flags, ")"),
            2, 4);
  }

  void Allocators() {
    if (r_.allocators.advice.empty()) return;
    Title("Allocators:");
    for (const std::string& line : r_.allocators.advice) {
      Wrapped(absl::StrCat("- ", line), 2, 4);
    }
  }

  void Notes() {
    Title("Notes:");
    Wrapped(absl::StrCat("- batch: ", r_.batch_source), 2, 4);
    for (const std::string& note : r_.notes) {
      Wrapped(absl::StrCat("- ", note), 2, 4);
    }
  }

  const EstimateReport& r_;
  std::string out_;
};

}  // namespace

std::string EstimateToText(const EstimateReport& report) {
  return Writer(report).Write();
}

}  // namespace onnx_memopt
