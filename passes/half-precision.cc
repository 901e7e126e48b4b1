// half-precision: weights and activations in 16 bits.
//
//     x float32                            x float32
//     h = MatMul(x, w float32)             x_float16 = Cast(x)
//     p = Softmax(h)                  =>   h = MatMul(x_float16, w float16)
//     y = MatMul(p, v float32)             h_float = Cast(h)
//                                          p = Softmax(h_float)
//                                          p_float16 = Cast(p)
//                                          y_float16 = MatMul(p_float16, ...)
//                                          y = Cast(y_float16)
//
// Why it saves memory: weights and most activations take half the bytes. Cost:
// 11 bits of precision (bfloat16: 8) where there were 24; Casts; time on a CPU
// without kernels in 16 bits. Ops that need float32 keep it, for the reasons of
// the op table (docs/ops.md, float32), and so do weights that 16 bits cannot
// hold, with the nodes that read them. Weights are converted while they are
// written. Refuses: models that are in 16 bits already; calls of model-local
// functions are inlined, or stay float32 where they cannot be. Must not run
// after it: split and rematerialize may run before or after; share-initializers
// before it, since then fewer weights are read. Paper: Micikevicius et al.,
// Mixed Precision Training, ICLR 2018, for what is kept.
//
// Options: type, interface, out-of-range, sensitive.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/half_precision.h"
#include "onnx_memopt/rewrite/inline_calls.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::Graph;
using rewrite::HalfCounts;
using rewrite::HalfOptions;
using rewrite::HalfPlan;
using rewrite::HalfRange;
using rewrite::OutOfRange;

// More lines of one kind are counted, not listed.
constexpr size_t kMaxListed = 8;
// The first version of Cast that takes it.
constexpr int kBfloat16Opset = 13;

class HalfPrecision final : public pass::Pass {
 public:
  explicit HalfPrecision(HalfOptions options) : options_(options) {}

  absl::string_view name() const override { return "half-precision"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    Graph changed = graph.Clone();
    const rewrite::InlineResult inlined = rewrite::InlineCalls(&changed);
    if (const absl::Status fits = CheckOpset(&changed); !fits.ok()) {
      return context.LeaveAsIs(fits);
    }
    absl::StatusOr<HalfPlan> plan = rewrite::PlanHalf(changed, options_);
    if (!plan.ok()) return context.LeaveAsIs(plan.status());
    ASSIGN_OR_RETURN(const HalfCounts counts,
                     rewrite::ConvertToHalf(*plan, &changed));
    if (counts.half_nodes == 0) {
      ListReasons(*plan, counts, context);
      return false;
    }
    if (counts.saved_bytes < 0) {
      return context.LeaveAsIs(absl::FailedPreconditionError(absl::StrCat(
          "its weights would take ", FormatBytes(-counts.saved_bytes),
          " more: most of them are read in float32, too")));
    }
    graph = std::move(changed);
    if (inlined.inlined > 0) {
      context.Remark(
          absl::StrCat("inlined ", inlined.inlined, " calls of functions"));
    }
    ListSome(inlined.refused, "calls stay float32", context);
    ListReasons(*plan, counts, context);
    context.Remark(absl::StrCat(
        counts.weights, " weights in ", ir::Name(options_.type), ", saves ",
        FormatBytes(std::max<int64_t>(counts.saved_bytes, 0)), "; ",
        counts.casts, " Casts put in, ", counts.removed, " taken out"));
    ListRanges(graph, *plan, context);
    if (options_.type == ir::ElementType::kBfloat16) {
      context.Remark(
          "ONNX Runtime's CPU kernels take no bfloat16: run it on another "
          "provider, or use float16");
    }
    return true;
  }

 private:
  absl::Status CheckOpset(Graph* graph) const {
    const int opset = rewrite::Builder(graph).opset();
    if (opset == 0) {
      return absl::FailedPreconditionError(
          "outside of functions it has none of ONNX's own operators, so the "
          "version that Cast would have is not known");
    }
    if (options_.type != ir::ElementType::kBfloat16 ||
        opset >= kBfloat16Opset) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("bfloat16 needs opset ", kBfloat16Opset,
                     " or newer, the model has ", opset));
  }

  void ListReasons(const HalfPlan& plan, const HalfCounts& counts,
                   pass::PassContext& context) const {
    std::map<std::string, int64_t> reasons;
    for (const std::string& reason : plan.reasons) {
      if (!reason.empty()) ++reasons[reason];
    }
    std::string text = absl::StrCat(counts.half_nodes, " nodes compute in ",
                                    ir::Name(options_.type), ", ",
                                    counts.single_nodes, " in float32");
    const char* separator = " (";
    for (const auto& [reason, count] : reasons) {
      absl::StrAppend(&text, separator, reason, ": ", count);
      separator = ", ";
    }
    if (!reasons.empty()) absl::StrAppend(&text, ")");
    context.Remark(text);
  }

  void ListRanges(const Graph& graph, const HalfPlan& plan,
                  pass::PassContext& context) const {
    std::vector<std::string> lines;
    for (const auto& [id, range] : plan.ranges) {
      const std::string what = Describe(range);
      if (what.empty()) continue;
      lines.push_back(absl::StrCat("\"", Printable(graph.value(id).name),
                                   "\": ", what, "; ",
                                   Outcome(plan, id, range)));
    }
    ListSome(lines, "weights beyond the range", context);
  }

  static std::string Describe(const HalfRange& range) {
    std::vector<std::string> parts;
    if (range.too_large > 0) {
      parts.push_back(absl::StrCat(range.too_large, " of ", range.elements,
                                   " elements too large"));
    }
    if (range.all_small) {
      parts.emplace_back("all elements below the smallest normal number");
    } else if (range.vanishing > 0) {
      parts.push_back(absl::StrCat(range.vanishing, " of ", range.elements,
                                   " elements become zero"));
    }
    return absl::StrJoin(parts, ", ");
  }

  absl::string_view Outcome(const HalfPlan& plan, ir::ValueId id,
                            const HalfRange& range) const {
    if (plan.kept[Index(id)]) return "stays float32";
    if (range.too_large == 0) return "rounded";
    return options_.out_of_range == OutOfRange::kClamp ? "clamped"
                                                       : "rounded to infinity";
  }

  static void ListSome(const std::vector<std::string>& lines,
                       absl::string_view what, pass::PassContext& context) {
    for (size_t i = 0; i < std::min(lines.size(), kMaxListed); ++i) {
      context.Remark(lines[i]);
    }
    if (lines.size() > kMaxListed) {
      context.Remark(
          absl::StrCat(what, ": ", lines.size() - kMaxListed, " more"));
    }
  }

  HalfOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeHalfPrecision(
    pass::PassOptions& options) {
  HalfOptions half;
  ASSIGN_OR_RETURN(
      const size_t type,
      options.Choice("type", {"float16", "bfloat16"}, "or bfloat16"));
  half.type =
      type == 0 ? ir::ElementType::kFloat16 : ir::ElementType::kBfloat16;
  ASSIGN_OR_RETURN(
      const size_t interface,
      options.Choice("interface", {"float32", "half"},
                     "or half: type of the model's inputs and outputs"));
  half.keep_interface = interface == 0;
  ASSIGN_OR_RETURN(
      const size_t range,
      options.Choice("out-of-range", {"keep", "clamp", "round"},
                     "or clamp, round: weights that 16 bits cannot hold"));
  half.out_of_range = static_cast<OutOfRange>(range);
  ASSIGN_OR_RETURN(
      const size_t sensitive,
      options.Choice("sensitive", {"float32", "half"},
                     "or half: type in which sensitive ops compute"));
  half.sensitive_in_half = sensitive == 1;
  return std::make_unique<HalfPrecision>(half);
}

}  // namespace onnx_memopt::passes
