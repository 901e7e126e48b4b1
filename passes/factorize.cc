// factorize: layers with a matrix of weights as two smaller layers.
//
//     y = MatMul(x, w [768, 3072])
//                       =>   t = MatMul(x, w_left [768, 300])
//                            y = MatMul(t, w_right [300, 3072])
//
// Why it saves memory: rank * (rows + columns) numbers instead of rows *
// columns. Cost: the error of a truncated singular value decomposition; one
// more activation of `rank` columns; arithmetic falls by the same factor as the
// bytes, and a layer where one of the two would not fall is left as it is.
// Refuses: weights that something else reads too, grouped convolutions, sides
// beyond max-side. Must not run after it: nothing; half-precision after it, and
// not before, since weights in 16 bits are left alone. Paper: Denton et al.,
// Exploiting Linear Structure Within Convolutional Networks, NeurIPS 2014;
// Jaderberg et al., Speeding up CNNs with Low Rank Expansions, BMVC 2014; for
// error-budget, moments and large matrices see lib/plan/error_budget.cc,
// lib/rewrite/moments.h and random_sketch.h.
//
// Options: energy, rank, max-error, error-budget, moments, min-elements,
// max-side.

#include "onnx_memopt/rewrite/factorize.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::Graph;
using rewrite::FactoredLayer;
using rewrite::FactorOptions;
using rewrite::FactorResult;

class Factorize final : public pass::Pass {
 public:
  explicit Factorize(FactorOptions options) : options_(std::move(options)) {}

  absl::string_view name() const override { return "factorize"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    return Handle(graph, context, /*apply=*/true);
  }

  absl::Status Preview(const Graph& graph,
                       pass::PassContext& context) override {
    Graph copy = graph.Clone();
    return Handle(copy, context, /*apply=*/false).status();
  }

 private:
  absl::StatusOr<bool> Handle(Graph& graph, pass::PassContext& context,
                              bool apply) const {
    ASSIGN_OR_RETURN(const FactorResult result,
                     rewrite::FactorizeLayers(options_, &graph, apply));
    if (options_.rank && result.longest_side > 0 &&
        *options_.rank > result.longest_side) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", *options_.rank,
                       " is above that of every layer; the largest is ",
                       result.longest_side));
    }
    int64_t before = 0;
    int64_t after = 0;
    for (const FactoredLayer& layer : result.layers) {
      before += layer.bytes_before;
      after += layer.bytes_after;
      context.Remark(Describe(layer));
    }
    if (!result.layers.empty()) {
      context.Remark(absl::StrCat(result.layers.size(), " layers, ",
                                  FormatBytes(before), " -> ",
                                  FormatBytes(after)));
      const auto blind = std::count_if(
          result.layers.begin(), result.layers.end(),
          [](const FactoredLayer& layer) { return !layer.of_outputs; });
      if (!options_.moments.empty() && blind > 0) {
        context.Remark(absl::StrCat(
            blind,
            " of these layers have no moments: their errors are those "
            "of the weights"));
      }
    }
    if (result.unchanged > 0) {
      context.Remark(absl::StrCat(
          result.unchanged, " matrices stay: their rank would save nothing"));
    }
    if (result.too_large > 0) {
      context.Remark(absl::StrCat(result.too_large,
                                  " matrices stay: their shorter side is "
                                  "beyond max-side=",
                                  options_.max_side));
    }
    return apply && !result.layers.empty();
  }

  static std::string Describe(const FactoredLayer& layer) {
    return absl::StrFormat(
        "\"%s\" [%s] %s%s: rank %d of %d, energy %.6f, error %.3g%s, %s -> %s",
        Printable(layer.weight), absl::StrJoin(layer.dims, ", "),
        rewrite::Name(layer.form),
        layer.nodes > 1 ? absl::StrCat(" (", layer.nodes, " nodes)") : "",
        layer.rank, layer.full_rank, layer.energy, layer.error,
        layer.of_outputs ? " of the outputs" : "",
        FormatBytes(layer.bytes_before), FormatBytes(layer.bytes_after));
  }

  FactorOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeFactorize(
    pass::PassOptions& options) {
  FactorOptions factor;
  ASSIGN_OR_RETURN(
      const double energy,
      options.Real("energy", factor.energy, 0, 1,
                   "part of the squares of each matrix that is kept"));
  ASSIGN_OR_RETURN(const int64_t rank,
                   options.Int("rank", 0, "the same rank for all; 0: not set"));
  ASSIGN_OR_RETURN(
      const double max_error,
      options.Real("max-error", 0, 0, 1,
                   "relative error of each matrix at most; 0: not set"));
  ASSIGN_OR_RETURN(
      const double error_budget,
      options.Real("error-budget", 0, 0, 1,
                   "relative error of all layers together; 0: not set"));
  factor.moments = options.Text("moments", "",
                                "file of second moments of the layers' inputs");
  ASSIGN_OR_RETURN(factor.min_elements,
                   options.Int("min-elements", factor.min_elements,
                               "leave smaller weights alone"));
  ASSIGN_OR_RETURN(factor.max_side,
                   options.Int("max-side", factor.max_side,
                               "leave matrices alone whose shorter side is "
                               "longer"));
  const int given =
      static_cast<int>(energy != factor.energy) + static_cast<int>(rank > 0) +
      static_cast<int>(max_error > 0) + static_cast<int>(error_budget > 0);
  if (given > 1) {
    return absl::InvalidArgumentError(
        "pass factorize: give one of energy, rank, max-error and "
        "error-budget");
  }
  factor.energy = energy;
  if (rank > 0) factor.rank = rank;
  if (max_error > 0) factor.max_error = max_error;
  if (error_budget > 0) factor.error_budget = error_budget;
  return std::make_unique<Factorize>(std::move(factor));
}

}  // namespace onnx_memopt::passes
