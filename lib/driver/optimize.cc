#include "onnx_memopt/optimize.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "driver/annotate.h"
#include "driver/training_section.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/assume_sizes.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/analysis/weights.h"
#include "onnx_memopt/driver/build_report.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/io/save.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pipeline.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"
#include "registry.h"

namespace onnx_memopt {
namespace {

using analysis::AnalysisManager;

// More combinations than that are a mistake in the options.
constexpr size_t kMaxSweepPoints = 256;
// At meeting a budget.
constexpr int kMaxAttempts = 4;
// The runtime keeps the bytes of a subgraph's weights that it read with the
// model, beside those that its kernels use.
constexpr int64_t kMaxBytesInBodies = 1 << 20;

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(Printable(path), ": ", status.message()));
}

// Options that do not fit: told apart from broken models by their code.
absl::Status OptionError(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::OutOfRangeError(status.message());
}

class Run {
 public:
  Run(const std::string& path, const Options& options)
      : path_(path),
        options_(options),
        error_path_(path == "-" ? "stdin" : path) {}
  Run(const std::string& name, std::string bytes, const Options& options,
      std::string* output)
      : path_(name),
        bytes_(std::move(bytes)),
        in_memory_(true),
        memory_output_(output),
        options_(options),
        error_path_(name) {}

  absl::StatusOr<Report> Execute() {
    RETURN_IF_ERROR(PrepareOptions());
    Progress("reading");
    const auto size_bytes = static_cast<int64_t>(bytes_.size());
    absl::StatusOr<std::shared_ptr<const io::LoadedModel>> loaded =
        in_memory_ ? io::FromBytes(std::move(bytes_), options_.external_dir)
                   : io::Load(path_, {.external_dir = options_.external_dir});
    if (!loaded.ok()) return WithPath(error_path_, loaded.status());
    model_ = *std::move(loaded);
    report_.model.size_bytes =
        in_memory_ ? size_bytes : model_->file_size_bytes();
    for (io::ImportOptions* options : {&checked_, &import_}) {
      RETURN_IF_ERROR(OptionError(NameInputShape(*model_, options)));
    }
    RETURN_IF_ERROR(OptionError(CheckImportOptions(*model_, checked_)));
    if (options_.rewrite) PlanForInputShapes();
    absl::StatusOr<ir::Graph> graph = io::Import(model_, import_);
    if (!graph.ok()) return WithPath(error_path_, graph.status());
    graph_ = *std::move(graph);
    for (const auto& [name, sizes] : options_.dims) {
      if (IsSwept(name)) {
        graph_.assumed[name] = *std::min_element(sizes.begin(), sizes.end());
      }
    }
    for (const auto& [name, size] : planned_) graph_.assumed[name] = size;
    absl::StatusOr<std::set<std::string>> guessed =
        analysis::AssumeSizes(&graph_);
    if (!guessed.ok()) return WithPath(error_path_, guessed.status());
    guessed_ = *std::move(guessed);
    const absl::Status status = AnalyseAndRewrite();
    if (!status.ok()) return WithPath(error_path_, status);
    return std::move(report_);
  }

 private:
  void Progress(const std::string& phase) const {
    if (options_.progress) options_.progress(phase);
  }

  // Names with one size are bound when the model is read, unless passes are to
  // run: those must not rely on a size, only plan for it. Names of a sweep stay
  // symbolic too, and are given sizes one after another.
  absl::Status PrepareOptions() {
    import_.input_shapes = options_.input_shapes;
    size_t points = 1;
    for (const auto& [name, sizes] : options_.dims) {
      if (sizes.empty()) {
        return absl::OutOfRangeError(
            absl::StrCat("dimension \"", Printable(name), "\" has no size"));
      }
      checked_.dims[name] = *std::min_element(sizes.begin(), sizes.end());
      if (sizes.size() == 1) {
        if (options_.rewrite) {
          planned_[name] = sizes.front();
        } else {
          import_.dims[name] = sizes.front();
        }
        continue;
      }
      points *= sizes.size();
      if (points > kMaxSweepPoints) {
        return absl::OutOfRangeError(absl::StrCat(
            "the sweep has more than ", kMaxSweepPoints, " combinations"));
      }
    }
    checked_.input_shapes = options_.input_shapes;
    absl::StatusOr<pass::Pipeline> pipeline = pass::ParsePipeline(
        options_.passes.empty() ? passes::kDefaultPipeline : options_.passes,
        passes::RegisteredPasses());
    RETURN_IF_ERROR(OptionError(pipeline.status()));
    pipeline_ = *std::move(pipeline);
    return absl::OkStatus();
  }

  // Shapes that are given for inputs whose dimensions the model leaves open are
  // sizes to plan for. Where a shape replaces numbers, or there is none, the
  // model is read with it.
  void PlanForInputShapes() {
    std::map<std::string, std::vector<int64_t>> replaced;
    for (const auto& [name, sizes] : import_.input_shapes) {
      decltype(planned_) planned;
      if (io::NamesOfShape(*model_, name, sizes, &planned) &&
          std::none_of(planned.begin(), planned.end(),
                       [&](const auto& dim) { return IsSwept(dim.first); })) {
        planned_.insert(planned.begin(), planned.end());
      } else {
        replaced.emplace(name, sizes);
      }
    }
    import_.input_shapes = std::move(replaced);
  }

  bool IsSwept(const std::string& name) const {
    const auto it = options_.dims.find(name);
    return it != options_.dims.end() && it->second.size() > 1;
  }

  absl::Status AnalyseAndRewrite() {
    Progress("analysing");
    RETURN_IF_ERROR(DescribeModel());
    MakeSweep();
    RETURN_IF_ERROR(ForEachSweepPoint(/*after=*/false));
    ChooseSweepPoint();
    ir::Graph shown = Shown();
    {
      AnalysisManager analyses(&shown);
      ASSIGN_OR_RETURN(report_.before,
                       BuildPeak(shown, analyses, /*formulas=*/true));
      ASSIGN_OR_RETURN(report_.weights, BuildWeights(shown, analyses));
      ASSIGN_OR_RETURN(report_.profile_before, BuildProfile(shown, analyses));
    }
    report_.weights_after_bytes = report_.weights.bytes;
    if (options_.training) {
      Progress("planning training");
      report_.training = DescribeTraining(*model_, shown);
    }
    ASSIGN_OR_RETURN(const double before_seconds, Seconds(shown));
    if (options_.rewrite) {
      RETURN_IF_ERROR(Rewrite());
      shown = Shown();
    } else if (!options_.passes.empty()) {
      ASSIGN_OR_RETURN(std::vector<pass::PassRun> runs,
                       pass::PreviewPipeline(pipeline_, graph_));
      ListPasses(std::move(runs));
    }
    AnalysisManager analyses(&shown);
    if (options_.rewrite) {
      ASSIGN_OR_RETURN(report_.after,
                       BuildPeak(shown, analyses, /*formulas=*/true));
      ASSIGN_OR_RETURN(report_.profile_after, BuildProfile(shown, analyses));
      ASSIGN_OR_RETURN(const analysis::Weights* weights,
                       analyses.Get<analysis::Weights>());
      report_.weights_after_bytes = weights->bytes();
      ASSIGN_OR_RETURN(const double seconds, Seconds(shown));
      report_.time_ratio = before_seconds > 0 ? seconds / before_seconds : 1;
      if (options_.budget_bytes) {
        ASSIGN_OR_RETURN(report_.budget,
                         BuildBudget(shown, analyses, *options_.budget_bytes));
      }
      if (in_memory_ ? memory_output_ != nullptr : !options_.output.empty()) {
        Progress("writing");
        io::ExportOptions options;
        std::vector<ir::Weight> made;
        options.made = &made;
        if (options_.annotate) {
          ASSIGN_OR_RETURN(options.metadata, DescribeNodes(shown, analyses));
        }
        ASSIGN_OR_RETURN(const onnx::ModelProto proto,
                         io::Export(*model_, graph_, options));
        if (in_memory_) {
          ASSIGN_OR_RETURN(*memory_output_,
                           io::SaveToString(proto, *model_, made));
        } else {
          RETURN_IF_ERROR(Write(proto, made));
        }
      }
    }
    Progress("reporting");
    RETURN_IF_ERROR(BuildTables(shown, analyses, &report_));
    RETURN_IF_ERROR(BuildSessionOptions(shown, analyses, &report_));
    for (const std::string& name : shown.symbols) {
      const auto it = graph_.assumed.find(name);
      report_.dims.push_back(
          {.name = name,
           .value = it == graph_.assumed.end() ? 1 : it->second,
           .assumed = it == graph_.assumed.end() || guessed_.contains(name)});
    }
    std::sort(
        report_.dims.begin(), report_.dims.end(),
        [](const ReportDim& a, const ReportDim& b) { return a.name < b.name; });
    report_.warnings.insert(report_.warnings.begin(), graph_.warnings.begin(),
                            graph_.warnings.end());
    return absl::OkStatus();
  }

  absl::Status DescribeModel() {
    const onnx::ModelProto& proto = model_->proto();
    report_.model.path = path_;
    ASSIGN_OR_RETURN(report_.model.sha256, model_->Sha256());
    for (const onnx::OperatorSetIdProto& opset : proto.opset_import()) {
      if (opset.domain().empty() || opset.domain() == "ai.onnx") {
        report_.model.opset = opset.version();
      }
    }
    report_.model.ir_version = proto.ir_version();
    AnalysisManager analyses(&graph_);
    ASSIGN_OR_RETURN(const analysis::Timeline* timeline,
                     analyses.Get<analysis::Timeline>());
    report_.model.nodes =
        static_cast<int64_t>(timeline->steps(ir::kMainBlock).size());
    for (const auto* dims : {&import_.dims, &planned_}) {
      for (const auto& [name, size] : *dims) {
        report_.dims.push_back({.name = name, .value = size});
      }
    }
    return absl::OkStatus();
  }

  // What the report is about: sizes that were asked for are numbers.
  ir::Graph Shown() const {
    ir::Graph shown = graph_.Clone();
    if (!planned_.empty()) {
      ir::Bind(ir::Bindings(planned_.begin(), planned_.end()), &shown);
    }
    return shown;
  }

  // Every combination, the last name changing fastest.
  void MakeSweep() {
    std::vector<ReportSweepPoint> points(1);
    for (const auto& [name, sizes] : options_.dims) {
      if (sizes.size() < 2) continue;
      std::vector<ReportSweepPoint> longer;
      for (const ReportSweepPoint& point : points) {
        for (int64_t size : sizes) {
          longer.push_back(point);
          longer.back().dims.emplace_back(name, size);
        }
      }
      points = std::move(longer);
    }
    if (!points.front().dims.empty()) report_.sweep = std::move(points);
  }

  void Assume(const ReportSweepPoint& point) {
    for (const auto& [name, size] : point.dims) graph_.assumed[name] = size;
  }

  absl::Status ForEachSweepPoint(bool after) {
    for (ReportSweepPoint& point : report_.sweep) {
      Assume(point);
      AnalysisManager analyses(&graph_);
      ASSIGN_OR_RETURN(ReportPeak peak,
                       BuildPeak(graph_, analyses, /*formulas=*/false));
      ASSIGN_OR_RETURN(const analysis::Weights* weights,
                       analyses.Get<analysis::Weights>());
      point.weights_bytes = weights->bytes();
      (after ? point.after.emplace() : point.before) = std::move(peak);
    }
    return absl::OkStatus();
  }

  // The plan is made for the worst point.
  void ChooseSweepPoint() {
    if (report_.sweep.empty()) return;
    worst_ = *std::max_element(
        report_.sweep.begin(), report_.sweep.end(),
        [](const ReportSweepPoint& a, const ReportSweepPoint& b) {
          return a.before.live_peak_bytes < b.before.live_peak_bytes;
        });
    Assume(worst_);
  }

  static absl::StatusOr<double> Seconds(const ir::Graph& graph) {
    AnalysisManager analyses(&graph);
    ASSIGN_OR_RETURN(const analysis::TimeModel* time,
                     analyses.Get<analysis::TimeModel>());
    return time->total_seconds();
  }

  absl::Status Rewrite() {
    pass::Goals goals;
    goals.max_slowdown = options_.max_slowdown.value_or(
        options_.budget_bytes ? std::numeric_limits<double>::infinity()
                              : goals.max_slowdown);
    if (options_.budget_bytes) {
      RETURN_IF_ERROR(RewriteForBudget(goals));
    } else {
      RETURN_IF_ERROR(RunPasses(goals));
    }
    RETURN_IF_ERROR(ForEachSweepPoint(/*after=*/true));
    Assume(worst_);
    return absl::OkStatus();
  }

  // Passes stop when they believe the budget to be met, each from what it sees.
  // Where all of them together miss it, they are told to aim lower; the last
  // attempt is for the lowest peak.
  absl::Status RewriteForBudget(pass::Goals goals) {
    const int64_t budget = *options_.budget_bytes;
    const ir::Graph original = graph_.Clone();
    std::optional<ir::Graph> best;
    std::vector<ReportPass> best_passes;
    int64_t best_bytes = 0;
    int64_t aim = budget;
    for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
      const bool is_last = attempt == kMaxAttempts - 1;
      goals.budget_bytes = is_last ? std::nullopt : std::optional(aim);
      graph_ = original.Clone();
      RETURN_IF_ERROR(RunPasses(goals));
      const ir::Graph shown = Shown();
      AnalysisManager analyses(&shown);
      ASSIGN_OR_RETURN(const ReportBudget reached,
                       BuildBudget(shown, analyses, budget));
      if (!best || reached.reached_bytes < best_bytes) {
        best_bytes = reached.reached_bytes;
        best = graph_.Clone();
        best_passes = report_.passes;
      }
      if (reached.met) break;
      // Nothing that is tried again would go below what is impossible.
      aim = std::max<int64_t>(aim - (reached.reached_bytes - budget), 1);
    }
    graph_ = *std::move(best);
    report_.passes = std::move(best_passes);
    return absl::OkStatus();
  }

  absl::Status RunPasses(const pass::Goals& goals) {
    pass::PipelineOptions options;
    options.goals = goals;
    options.observer = [&](absl::string_view pass, const ir::Graph&) {
      Progress(pass.empty() ? "optimizing" : absl::StrCat("after ", pass));
    };
    ASSIGN_OR_RETURN(std::vector<pass::PassRun> runs,
                     RunPipeline(pipeline_, graph_, options));
    ListPasses(std::move(runs));
    return absl::OkStatus();
  }

  void ListPasses(std::vector<pass::PassRun> runs) {
    report_.passes.clear();
    for (pass::PassRun& run : runs) {
      report_.passes.push_back({.name = std::move(run.name),
                                .changed = run.changed,
                                .seconds = run.seconds,
                                .remarks = std::move(run.remarks)});
    }
  }

  // Bytes of weights that lie in the model file and that passes moved into
  // subgraphs.
  int64_t WeightsInBodies() const {
    int64_t bytes = 0;
    for (size_t i = 0; i < graph_.num_blocks(); ++i) {
      const ir::Block& block =
          graph_.block(ir::BlockId(static_cast<uint32_t>(i)));
      if (block.from_source) continue;
      for (ir::ValueId id : block.initializers) {
        const ir::Weight& weight = graph_.weight(graph_.value(id).weight);
        if (weight.storage == ir::WeightStorage::kExternal) continue;
        bytes = SaturatingAdd(bytes, weight.size_bytes);
      }
    }
    return bytes;
  }

  absl::Status Write(const onnx::ModelProto& proto,
                     absl::Span<const ir::Weight> made) {
    error_path_ = options_.output == "-" ? "stdout" : options_.output;
    io::SaveOptions save;
    save.made = made;
    save.drop_resident = graph_.drop_resident;
    switch (options_.external_data) {
      case ExternalDataMode::kAuto:
        save.external_data = io::ExternalData::kAuto;
        if (options_.output != "-" && WeightsInBodies() > kMaxBytesInBodies) {
          save.external_data = io::ExternalData::kAll;
          report_.warnings.emplace_back(
              "weights were moved to a file of their own: inside a subgraph of "
              "the model file ONNX Runtime would hold them twice");
        }
        break;
      case ExternalDataMode::kReference:
        save.external_data = io::ExternalData::kReference;
        break;
      case ExternalDataMode::kCopy:
        save.external_data = io::ExternalData::kCopy;
        break;
      case ExternalDataMode::kAll:
        save.external_data = io::ExternalData::kAll;
        break;
    }
    ASSIGN_OR_RETURN(io::SaveResult saved,
                     io::Save(proto, *model_, options_.output, save));
    report_.outputs = std::move(saved.files);
    return absl::OkStatus();
  }

  const std::string& path_;
  std::string bytes_;  // of a model in memory, until it is read
  const bool in_memory_ = false;
  std::string* const memory_output_ = nullptr;
  const Options& options_;
  std::string error_path_;     // the file that is being read or written
  io::ImportOptions import_;   // what is bound
  io::ImportOptions checked_;  // all names that options mention
  decltype(io::ImportOptions::dims) planned_;  // sizes that passes plan for
  std::set<std::string> guessed_;  // names with a size that nobody gave
  pass::Pipeline pipeline_;
  std::shared_ptr<const io::LoadedModel> model_;
  ir::Graph graph_;
  ReportSweepPoint worst_;
  Report report_;
};

}  // namespace

absl::StatusOr<Report> Optimize(const std::string& path,
                                const Options& options) {
  return Run(path, options).Execute();
}

absl::StatusOr<Report> OptimizeBytes(std::string model, const Options& options,
                                     std::string* output) {
  const std::string name = "<memory>";
  return Run(name, std::move(model), options, output).Execute();
}

}  // namespace onnx_memopt
