#include "onnx_memopt/suggest_student.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "driver/estimate_loaded.h"
#include "driver/make_step.h"
#include "onnx_memopt/grad/activity.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/io/save.h"
#include "onnx_memopt/rewrite/drop_blocks.h"
#include "onnx_memopt/rewrite/fresh_weights.h"
#include "onnx_memopt/rewrite/inline_calls.h"
#include "onnx_memopt/rewrite/narrow.h"
#include "onnx_memopt/rewrite/repeated_blocks.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/near_names.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

constexpr size_t kNearNames = 3;

using ir::ValueId;

// Of the blocks where nothing else is asked for.
constexpr double kDefaultLayersRatio = 0.5;

class Suggestion {
 public:
  Suggestion(const std::string& path, const StudentOptions& options)
      : path_(path), options_(options) {}

  absl::StatusOr<StudentResult> Execute() {
    error_path_ = path_ == "-" ? "stdin" : path_;
    absl::Status status = Run();
    if (status.ok()) return std::move(result_);
    if (status.code() == absl::StatusCode::kOutOfRange) return status;
    return absl::Status(status.code(), absl::StrCat(Printable(error_path_),
                                                    ": ", status.message()));
  }

 private:
  absl::Status Run() {
    RETURN_IF_ERROR(CheckOptions());
    ASSIGN_OR_RETURN(model_,
                     io::Load(path_, {.external_dir = options_.external_dir}));
    ASSIGN_OR_RETURN(graph_, io::Import(model_, {}));
    ASSIGN_OR_RETURN(result_.teacher, MemoryOf(model_, graph_));
    rewrite::InlineCalls(&graph_);
    RETURN_IF_ERROR(DropLayers());
    RETURN_IF_ERROR(DropDead(&graph_));
    const std::vector<ValueId> weights = FreshWeights(graph_);
    if (options_.width) RETURN_IF_ERROR(MakeNarrow(weights));
    RETURN_IF_ERROR(rewrite::FillFresh(options_.seed, weights, &graph_));
    RETURN_IF_ERROR(ir::Verify(graph_));
    return Write();
  }

  absl::Status CheckOptions() const {
    const auto ratio = [](absl::string_view option, double value) {
      if (std::isfinite(value) && value > 0 && value <= 1) {
        return absl::OkStatus();
      }
      return absl::OutOfRangeError(absl::StrCat(
          option, ": ", value, " is not a number above 0, at most 1"));
    };
    if (options_.layers && *options_.layers < 1) {
      return absl::OutOfRangeError(absl::StrCat("--layers: ", *options_.layers,
                                                " is not a positive number"));
    }
    if (options_.layers && options_.layers_ratio) {
      return absl::OutOfRangeError(
          "--layers and --layers-ratio say the same: give one");
    }
    if (!options_.narrow_outputs.empty() && !options_.width) {
      return absl::OutOfRangeError("--narrow-output needs --width");
    }
    RETURN_IF_ERROR(ratio("--layers-ratio", options_.layers_ratio.value_or(1)));
    return ratio("--width", options_.width.value_or(1));
  }

  static size_t LayersOf(const rewrite::Repetition& run) {
    return run.count + (run.one_more ? 1 : 0);
  }

  // Of each run of equal blocks; the last run first, whose places in the
  // schedule do not depend on the others.
  absl::Status DropLayers() {
    double ratio = options_.layers_ratio.value_or(1);
    if (!options_.layers && !options_.layers_ratio && !options_.width) {
      ratio = kDefaultLayersRatio;
    }
    if (!options_.layers && ratio == 1) return absl::OkStatus();
    if (graph_.block(ir::kMainBlock).nodes.size() >
        rewrite::kMaxNodesOfRepetition) {
      return absl::OutOfRangeError(absl::StrCat(
          "the model has more than ", rewrite::kMaxNodesOfRepetition,
          " nodes: its blocks are not looked for"));
    }
    const std::vector<rewrite::Repetition> runs =
        rewrite::FindRepetitions(graph_);
    if (runs.empty()) {
      return absl::OutOfRangeError(
          "no block with weights repeats, so there are no layers to leave out");
    }
    const size_t most = std::max_element(runs.begin(), runs.end(),
                                         [](const auto& a, const auto& b) {
                                           return a.count < b.count;
                                         })
                            ->count;
    if (options_.layers && *options_.layers > static_cast<int64_t>(most)) {
      return absl::OutOfRangeError(absl::StrCat(
          "--layers: ", *options_.layers, " were asked for, and the model has ",
          most, " equal blocks"));
    }
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
      const size_t layers = LayersOf(*run);
      const auto wanted = static_cast<size_t>(std::max<int64_t>(
          1, options_.layers
                 ? *options_.layers
                 : std::llround(static_cast<double>(layers) * ratio)));
      // One that is in two parts around the others stays.
      const size_t around = run->one_more ? 1 : 0;
      const size_t keep =
          std::min(std::max(wanted, around + 1), layers) - around;
      const ir::NodeId first = graph_.block(ir::kMainBlock).nodes[run->begin];
      result_.layers.insert(result_.layers.begin(),
                            {.first_node = graph_.DisplayName(first),
                             .nodes = run->period,
                             .before = layers,
                             .after = keep + around});
      RETURN_IF_ERROR(rewrite::DropBlocks(*run, keep, &graph_));
    }
    return absl::OkStatus();
  }

  // What a training changes: parameters and running statistics.
  static std::vector<ValueId> FreshWeights(const ir::Graph& graph) {
    const ir::Block& main = graph.block(ir::kMainBlock);
    std::vector<ValueId> outputs;
    for (ValueId result : main.results) {
      if (grad::HasGradient(graph.value(result).type)) {
        outputs.push_back(result);
      }
    }
    std::vector<ValueId> weights = grad::Trainable(graph, outputs);
    for (ir::NodeId id : main.nodes) {
      const ir::Node& node = graph.node(id);
      if (node.info->flow != ir::flow_rules::BatchNormalization) continue;
      for (size_t i = 3; i < node.operands.size() && i < 5; ++i) {
        const ValueId statistic = node.operands[i];
        if (statistic != ir::kNoValue &&
            graph.value(statistic).kind == ir::ValueKind::kInitializer) {
          weights.push_back(statistic);
        }
      }
    }
    std::sort(weights.begin(), weights.end());
    weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
    std::erase_if(weights, [&](ValueId id) {
      return graph.value(id).overridable || graph.value(id).pinned;
    });
    return weights;
  }

  absl::Status MakeNarrow(const std::vector<ValueId>& weights) {
    std::vector<std::string> outputs;
    for (ValueId id : graph_.block(ir::kMainBlock).results) {
      outputs.push_back(graph_.value(id).name);
    }
    for (const std::string& name : options_.narrow_outputs) {
      if (std::find(outputs.begin(), outputs.end(), name) != outputs.end()) {
        continue;
      }
      std::string near;
      for (const size_t i : NearNames(name, outputs, kNearNames)) {
        absl::StrAppend(&near, near.empty() ? "; near it: \"" : ", \"",
                        Printable(outputs[i]), "\"");
      }
      return absl::OutOfRangeError(
          absl::StrCat("--narrow-output: the student has no output \"",
                       Printable(name), "\"", near));
    }
    ASSIGN_OR_RETURN(rewrite::Narrowed narrowed,
                     rewrite::Narrow({.ratio = *options_.width,
                                      .outputs = options_.narrow_outputs},
                                     weights, &graph_));
    for (const rewrite::Width& width : narrowed.changed) {
      const auto same =
          std::find_if(result_.widths.begin(), result_.widths.end(),
                       [&](const StudentWidth& w) {
                         return w.from == width.from && w.to == width.to;
                       });
      if (same != result_.widths.end()) {
        same->weights += width.weights;
        continue;
      }
      result_.widths.push_back(
          {.from = width.from, .to = width.to, .weights = width.weights});
    }
    result_.notes.insert(result_.notes.end(), narrowed.kept.begin(),
                         narrowed.kept.end());
    return absl::OkStatus();
  }

  absl::Status Write() {
    std::vector<ir::Weight> made;
    ASSIGN_OR_RETURN(onnx::ModelProto proto,
                     io::Export(*model_, graph_, {.made = &made}));
    if (!result_.widths.empty()) RestateTypes(proto.mutable_graph());
    std::shared_ptr<const io::LoadedModel> student;
    if (options_.output.empty() || options_.output == "-") {
      ASSIGN_OR_RETURN(std::string bytes,
                       io::SaveToString(proto, *model_, made));
      ASSIGN_OR_RETURN(student,
                       io::FromBytes(std::move(bytes), model_->directory()));
      RETURN_IF_ERROR(Check(student));
      return options_.output.empty() ? absl::OkStatus()
                                     : Save(proto, made).status();
    }
    ASSIGN_OR_RETURN(const std::vector<std::string> files, Save(proto, made));
    ASSIGN_OR_RETURN(student, io::Load(options_.output, {}));
    absl::Status status = Check(student);
    if (!status.ok()) {
      for (const std::string& file : files) {
        std::error_code error;
        std::filesystem::remove(file, error);
      }
      return status;
    }
    result_.outputs = files;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> Save(
      const onnx::ModelProto& proto, const std::vector<ir::Weight>& made) {
    error_path_ = options_.output == "-" ? "stdout" : options_.output;
    ASSIGN_OR_RETURN(
        io::SaveResult saved,
        io::Save(proto, *model_, options_.output,
                 {.made = made, .drop_resident = graph_.drop_resident}));
    error_path_ = path_ == "-" ? "stdin" : path_;
    return std::move(saved.files);
  }

  // Shapes that the source states hold no more: those of outputs are stated
  // anew, the others follow.
  void RestateTypes(onnx::GraphProto* proto) const {
    proto->clear_value_info();
    for (ValueId id : graph_.block(ir::kMainBlock).results) {
      const ir::Value& value = graph_.value(id);
      for (onnx::ValueInfoProto& output : *proto->mutable_output()) {
        if (output.name() != value.name || !value.type.shape) continue;
        auto* dims = output.mutable_type()
                         ->mutable_tensor_type()
                         ->mutable_shape()
                         ->mutable_dim();
        for (int i = 0; i < dims->size(); ++i) {
          const auto& dim = (*value.type.shape)[static_cast<size_t>(i)];
          if (dim && dim->is_constant() && (*dims)[i].has_dim_value()) {
            (*dims)[i].set_dim_value(dim->constant());
          }
        }
      }
    }
  }

  // That the types which follow from the weights as they were written are those
  // that were planned.
  absl::Status Check(const std::shared_ptr<const io::LoadedModel>& student) {
    ASSIGN_OR_RETURN(const ir::Graph read, io::Import(student, {}));
    absl::flat_hash_map<std::string, ValueId> values;
    for (size_t i = 0; i < read.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      values[read.value(id).name] = id;
    }
    for (ir::NodeId id : graph_.block(ir::kMainBlock).nodes) {
      for (ValueId result : graph_.node(id).results) {
        if (result == ir::kNoValue) continue;
        const auto it = values.find(graph_.value(result).name);
        if (it == values.end()) continue;
        const ir::Type& planned = graph_.value(result).type;
        const ir::Type& found = read.value(it->second).type;
        if (Agree(planned, found)) continue;
        return absl::OutOfRangeError(absl::StrCat(
            "node \"", Printable(graph_.DisplayName(id)), "\" (",
            Printable(graph_.node(id).op_type), ") prevents it: \"",
            Printable(graph_.value(result).name), "\" would be ",
            ir::ToString(found), ", and has to be ", ir::ToString(planned)));
      }
    }
    ASSIGN_OR_RETURN(result_.student, MemoryOf(student, read));
    return absl::OkStatus();
  }

  static bool Agree(const ir::Type& planned, const ir::Type& found) {
    if (!planned.is_tensor() || !planned.shape) return true;
    // A shape that cannot be is unknown.
    if (!found.is_tensor() || !found.shape ||
        found.shape->size() != planned.shape->size()) {
      return false;
    }
    for (size_t i = 0; i < planned.shape->size(); ++i) {
      const auto& a = (*planned.shape)[i];
      const auto& b = (*found.shape)[i];
      if (a && b && a->is_constant() && b->is_constant() && *a != *b) {
        return false;
      }
    }
    return true;
  }

  absl::StatusOr<StudentMemory> MemoryOf(
      const std::shared_ptr<const io::LoadedModel>& model,
      const ir::Graph& graph) {
    StudentMemory memory;
    for (ValueId id : FreshWeights(graph)) {
      const ir::Weight& weight = graph.weight(graph.value(id).weight);
      memory.parameters += weight.num_elements();
      memory.parameter_bytes += weight.size_bytes;
    }
    EstimateOptions options{.dims = options_.dims, .batch = options_.batch};
    const absl::StatusOr<EstimateReport> report =
        EstimateLoaded(model, options);
    if (report.ok()) {
      memory.training_bytes = report->total_bytes;
      memory.saved_activation_bytes = report->saved_activation_bytes;
      result_.batch = report->batch;
      return memory;
    }
    // A name that the model does not have is a mistake; sizes that are not
    // given are not.
    if (!options_.dims.empty() || options_.batch) return report.status();
    const std::string note =
        absl::StrCat("no estimate: ", report.status().message());
    if (result_.notes.empty() || result_.notes.front() != note) {
      result_.notes.insert(result_.notes.begin(), note);
    }
    return memory;
  }

  const std::string& path_;
  const StudentOptions& options_;
  std::string error_path_;
  std::shared_ptr<const io::LoadedModel> model_;
  ir::Graph graph_;
  StudentResult result_;
};

}  // namespace

absl::StatusOr<StudentResult> SuggestStudent(const std::string& path,
                                             const StudentOptions& options) {
  return Suggestion(path, options).Execute();
}

}  // namespace onnx_memopt
