#include "onnx_memopt/rewrite/factorize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/plan/error_budget.h"
#include "onnx_memopt/rewrite/low_rank.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"
#include "rewrite/layer_groups.h"
#include "rewrite/layer_parts.h"
#include "rewrite/moments.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Graph;

class Factorizer {
 public:
  Factorizer(const FactorOptions& options, Graph* graph, bool apply)
      : options_(options), graph_(*graph), parts_(graph), apply_(apply) {}

  absl::StatusOr<FactorResult> Run() {
    if (!options_.moments.empty()) {
      ASSIGN_OR_RETURN(moments_, Moments::Open(options_.moments));
    }
    groups_ = FindLayerGroups(graph_);
    std::erase_if(groups_, [&](const LayerGroup& group) {
      return WeightOf(group).size_bytes / 4 <
             std::max<int64_t>(options_.min_elements, 1);
    });
    RETURN_IF_ERROR(options_.error_budget ? SpendBudget() : EachForItself());
    if (apply_) parts_.Finish();
    return std::move(result_);
  }

 private:
  // A weight in one form, decomposed.
  struct Look {
    LayerForm form = LayerForm::kMatMul;
    Matrix matrix;
    // As the inputs see it, if their moments are known; else empty.
    Matrix root;
    Matrix seen;
    int64_t largest = 0;  // rank that saves
    std::optional<Spectrum> spectrum;

    int64_t full_rank() const { return std::min(matrix.rows, matrix.columns); }
    int64_t BytesSaved(int64_t rank) const {
      return 4 * (matrix.rows * matrix.columns -
                  rank * (matrix.rows + matrix.columns));
    }
    bool has_moments() const { return root.rows > 0; }
    const Matrix& Decomposed() const { return has_moments() ? seen : matrix; }
  };

  const ir::Weight& WeightOf(const LayerGroup& group) const {
    return graph_.weight(graph_.value(group.weight).weight);
  }
  Dims DimsOf(const LayerGroup& group) const {
    const ir::Weight& weight = WeightOf(group);
    return {weight.dims.begin(), weight.dims.end()};
  }

  // The inputs of a convolution by rows and columns are not those that the
  // moments are of.
  std::vector<LayerForm> FormsOf(const LayerGroup& group) const {
    std::vector<LayerForm> forms{group.form};
    if (group.form == LayerForm::kConvChannels &&
        CanSplitSpatially(graph_.node(group.nodes[0]), DimsOf(group)) &&
        !(moments_ && moments_->Has(WeightOf(group).name))) {
      forms.push_back(LayerForm::kConvSpatial);
    }
    return forms;
  }

  absl::Status EachForItself() {
    for (const LayerGroup& group : groups_) {
      std::unique_ptr<Look> best;
      int64_t best_rank = 0;
      for (const LayerForm form : FormsOf(group)) {
        ASSIGN_OR_RETURN(std::unique_ptr<Look> look, LookAt(group, form));
        if (!look) continue;
        const int64_t largest = look->largest;
        if (options_.rank && *options_.rank > largest) continue;
        Decompose(options_.rank ? SpectrumGoal{.energy = 0,
                                               .max_rank = *options_.rank,
                                               .min_rank = *options_.rank}
                                : SpectrumGoal{.energy = WantedEnergy(),
                                               .max_rank = largest},
                  look.get());
        const int64_t rank = options_.rank
                                 ? *options_.rank
                                 : look->spectrum->RankFor(WantedEnergy());
        if (rank > largest) continue;
        if (!best || look->BytesSaved(rank) > best->BytesSaved(best_rank)) {
          best = std::move(look);
          best_rank = rank;
        }
      }
      if (best) Take(group, *best, best_rank);
    }
    result_.unchanged = static_cast<int64_t>(groups_.size()) -
                        static_cast<int64_t>(result_.layers.size()) -
                        result_.too_large;
    return absl::OkStatus();
  }

  double WantedEnergy() const {
    return options_.max_error ? 1 - *options_.max_error * *options_.max_error
                              : options_.energy;
  }

  // The budget is the root of a mean of squares over all layers, so that the
  // squares add up.
  absl::Status SpendBudget() {
    struct Place {
      LayerForm form = LayerForm::kMatMul;
      int64_t rank = 0;
    };
    const double budget = *options_.error_budget * *options_.error_budget *
                          static_cast<double>(groups_.size());
    std::vector<std::vector<plan::Saving>> savings(groups_.size());
    std::vector<std::vector<Place>> places(groups_.size());
    for (size_t i = 0; i < groups_.size(); ++i) {
      for (const LayerForm form : FormsOf(groups_[i])) {
        ASSIGN_OR_RETURN(std::unique_ptr<Look> look, LookAt(groups_[i], form));
        if (!look) continue;
        const int64_t largest = look->largest;
        Decompose({.energy = std::max(0.0, 1 - budget),
                   .max_rank = largest,
                   .min_rank = largest,
                   .with_vectors = false},
                  look.get());
        const auto known =
            static_cast<int64_t>(look->spectrum->energies().size());
        double kept = 0;
        for (int64_t rank = 1; rank <= std::min(known, largest); ++rank) {
          kept += look->spectrum->energies()[static_cast<size_t>(rank - 1)];
          savings[i].push_back(
              {look->BytesSaved(rank), look->spectrum->ErrorLeft(kept)});
          places[i].push_back({form, rank});
        }
      }
    }
    const std::vector<int> chosen = plan::SpendError(savings, budget);
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (chosen[i] < 0) continue;
      const Place& place = places[i][static_cast<size_t>(chosen[i])];
      ASSIGN_OR_RETURN(std::unique_ptr<Look> look,
                       LookAt(groups_[i], place.form));
      Decompose({.energy = 0, .max_rank = place.rank, .min_rank = place.rank},
                look.get());
      Take(groups_[i], *look, place.rank);
    }
    result_.unchanged =
        std::count(chosen.begin(), chosen.end(), -1) - result_.too_large;
    return absl::OkStatus();
  }

  // nullptr: it is too large, or no rank would save anything.
  absl::StatusOr<std::unique_ptr<Look>> LookAt(const LayerGroup& group,
                                               LayerForm form) {
    const Dims dims = DimsOf(group);
    const ir::Weight& weight = WeightOf(group);
    absl::StatusOr<std::vector<float>> read = reader_.Floats(weight);
    if (graph_.drop_resident) graph_.drop_resident();
    if (!read.ok() || std::any_of(read->begin(), read->end(),
                                  [](float v) { return !std::isfinite(v); })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight \"", Printable(weight.name), "\" ",
          read.ok()
              ? "has numbers that are not finite"
              : absl::StrCat("cannot be read: ", read.status().message())));
    }
    auto look = std::make_unique<Look>();
    look->form = form;
    look->matrix = FormMatrix(*std::move(read), dims, form, group.transposed);
    const int64_t full = look->full_rank();
    result_.longest_side = std::max(result_.longest_side, full);
    if (full > options_.max_side) {
      if (form == group.form) ++result_.too_large;
      return nullptr;
    }
    look->largest =
        LargestRank(look->matrix, dims, form, graph_.node(group.nodes[0]));
    if (look->largest < 1) return nullptr;
    if (moments_) {
      const Side side = SideOf(form);
      ASSIGN_OR_RETURN(
          std::optional<Matrix> root,
          moments_->RootFor(weight.name, side == Side::kRows
                                             ? look->matrix.rows
                                             : look->matrix.columns));
      if (root) {
        look->root = *std::move(root);
        look->seen = WithRoot(look->matrix, look->root, side);
      }
    }
    return look;
  }

  static Side SideOf(LayerForm form) {
    return form == LayerForm::kMatMul || form == LayerForm::kGemm
               ? Side::kRows
               : Side::kColumns;
  }

  static void Decompose(const SpectrumGoal& goal, Look* look) {
    look->spectrum = Spectrum::Of(look->Decomposed(), goal);
  }

  void Take(const LayerGroup& group, const Look& look, int64_t rank) {
    Factors factors = look.spectrum->Take(look.Decomposed(), rank);
    const double error = RelativeError(look.Decomposed(), factors);
    if (look.has_moments()) {
      factors = WithoutRoot(look.matrix, std::move(factors), SideOf(look.form));
    }
    const int64_t before = 4 * look.matrix.rows * look.matrix.columns;
    result_.layers.push_back({.weight = WeightOf(group).name,
                              .dims = DimsOf(group),
                              .form = look.form,
                              .nodes = static_cast<int64_t>(group.nodes.size()),
                              .rank = rank,
                              .full_rank = look.full_rank(),
                              .of_outputs = look.has_moments(),
                              .energy = look.spectrum->Energy(rank),
                              .error = error,
                              .bytes_before = before,
                              .bytes_after = before - look.BytesSaved(rank)});
    if (apply_) {
      parts_.Replace(group, look.form, result_.layers.back().dims, factors);
    }
  }

  const FactorOptions& options_;
  Graph& graph_;
  LayerParts parts_;
  const bool apply_;
  std::vector<LayerGroup> groups_;
  std::optional<Moments> moments_;
  ir::WeightReader reader_;
  FactorResult result_;
};

}  // namespace

absl::string_view Name(LayerForm form) {
  switch (form) {
    case LayerForm::kMatMul:
    case LayerForm::kMatMulFirst:
      return "MatMul";
    case LayerForm::kGemm:
      return "Gemm";
    case LayerForm::kConvChannels:
      return "Conv by channels";
    case LayerForm::kConvSpatial:
      return "Conv by rows and columns";
  }
  return "";
}

absl::StatusOr<FactorResult> FactorizeLayers(const FactorOptions& options,
                                             Graph* graph, bool apply) {
  return Factorizer(options, graph, apply).Run();
}

}  // namespace onnx_memopt::rewrite
