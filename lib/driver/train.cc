#include "onnx_memopt/train.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "driver/add_teacher.h"
#include "driver/append_loss.h"
#include "driver/make_step.h"
#include "driver/module_names.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/assume_sizes.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/estimate/model_facts.h"
#include "onnx_memopt/grad/accumulate.h"
#include "onnx_memopt/grad/checkpoint.h"
#include "onnx_memopt/grad/node_order.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/io/save.h"
#include "onnx_memopt/io/tensor_walk.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

// A tensor of zeros is written whole.
constexpr int64_t kMaxStateBytes = int64_t{1} << 40;

io::ExternalData SaveMode(ExternalDataMode mode) {
  switch (mode) {
    case ExternalDataMode::kAuto:
      return io::ExternalData::kAuto;
    case ExternalDataMode::kReference:
      return io::ExternalData::kReference;
    case ExternalDataMode::kCopy:
      return io::ExternalData::kCopy;
    case ExternalDataMode::kAll:
      return io::ExternalData::kAll;
  }
  return io::ExternalData::kAuto;
}

class Run {
 public:
  Run(const std::string& path, const TrainOptions& options)
      : path_(path), options_(options) {}

  absl::StatusOr<TrainResult> Execute() {
    error_path_ = path_ == "-" ? "stdin" : path_;
    Progress("reading");
    absl::StatusOr<std::shared_ptr<const io::LoadedModel>> loaded =
        io::Load(path_, {.external_dir = options_.external_dir});
    if (!loaded.ok()) return WithPath(loaded.status());
    model_ = *std::move(loaded);
    io::ImportOptions import;
    for (const auto& [name, size] : options_.dims) import.dims[name] = size;
    import.input_shapes = options_.input_shapes;
    if (options_.batch) RETURN_IF_ERROR(BindBatch(&import));
    RETURN_IF_ERROR(AsOptionError(NameInputShape(*model_, &import)));
    step_ = options_.step;
    RETURN_IF_ERROR(ReadTeacher(import));
    RETURN_IF_ERROR(AsOptionError(CheckImportOptions(*model_, import)));
    absl::StatusOr<ir::Graph> graph = io::Import(model_, import);
    if (!graph.ok()) return WithPath(graph.status());
    graph_ = *std::move(graph);
    const absl::Status sizes = analysis::AssumeSizes(&graph_).status();
    if (!sizes.ok()) return WithPath(sizes);
    RETURN_IF_ERROR(ReadLoss());
    const absl::Status status = Rewrite();
    if (!status.ok()) return WithPath(status);
    return std::move(result_);
  }

 private:
  void Progress(const std::string& phase) const {
    if (options_.progress) options_.progress(phase);
  }

  absl::Status WithPath(const absl::Status& status) const {
    if (status.code() == absl::StatusCode::kOutOfRange) return status;
    return absl::Status(status.code(), absl::StrCat(Printable(error_path_),
                                                    ": ", status.message()));
  }

  // Options that do not fit are told apart from broken models by their code.
  static absl::Status AsOptionError(const absl::Status& status) {
    if (status.ok()) return status;
    return absl::OutOfRangeError(status.message());
  }

  absl::Status BindBatch(io::ImportOptions* import) const {
    absl::StatusOr<ir::Graph> graph = io::Import(model_, {});
    if (!graph.ok()) return WithPath(graph.status());
    const std::string name = estimate::FindBatchSymbol(*graph);
    if (name.empty()) {
      return absl::OutOfRangeError(
          "--batch: no input has a first dimension with a name; export the "
          "model with a dynamic batch, or give shapes by --input-shape");
    }
    const auto [it, is_new] = import->dims.try_emplace(name, *options_.batch);
    if (!is_new && it->second != *options_.batch) {
      return absl::OutOfRangeError(
          absl::StrCat("--batch: ", *options_.batch, ", but --dim says ",
                       Printable(name), "=", it->second));
    }
    return absl::OkStatus();
  }

  // From now on both models are one.
  absl::Status ReadTeacher(const io::ImportOptions& import) {
    if (options_.teacher.empty()) {
      step_.distillation.reset();
      return absl::OkStatus();
    }
    // The student with what of the sizes is its own.
    absl::StatusOr<ir::Graph> graph = io::Import(model_, {});
    if (!graph.ok()) return WithPath(graph.status());
    io::ImportOptions own;
    for (const std::string& symbol : graph->symbols) {
      const auto it = import.dims.find(symbol);
      if (it != import.dims.end()) own.dims.insert(*it);
    }
    for (ir::ValueId id : graph->block(ir::kMainBlock).params) {
      const auto it = import.input_shapes.find(graph->value(id).name);
      if (it != import.input_shapes.end()) own.input_shapes.insert(*it);
    }
    RETURN_IF_ERROR(AsOptionError(CheckImportOptions(*model_, own)));
    graph = io::Import(model_, own);
    if (!graph.ok()) return WithPath(graph.status());
    error_path_ = options_.teacher;
    TrainOptions options = options_;
    if (!options.step.distillation) options.step.distillation.emplace();
    absl::StatusOr<AddedTeacher> added = AddTeacher(options, model_, *graph);
    if (!added.ok()) return WithPath(added.status());
    error_path_ = path_ == "-" ? "stdin" : path_;
    model_ = std::move(added->model);
    step_.distillation = options.step.distillation;
    step_.distillation->prefix = added->prefix;
    step_.distillation->teacher_output = added->output;
    result_.teacher_nodes = added->nodes;
    result_.teacher_bytes = added->weight_bytes;
    result_.notes = std::move(added->notes);
    return absl::OkStatus();
  }

  absl::Status ReadLoss() {
    if (options_.loss_file.empty()) return absl::OkStatus();
    error_path_ = options_.loss_file;
    absl::StatusOr<std::shared_ptr<const io::LoadedModel>> loaded =
        io::Load(options_.loss_file, {});
    if (!loaded.ok()) return WithPath(loaded.status());
    absl::StatusOr<ir::Graph> loss = io::Import(*std::move(loaded), {});
    if (!loss.ok()) return WithPath(loss.status());
    const absl::Status status = AppendLoss(*loss, &graph_);
    if (!status.ok()) return WithPath(status);
    step_.loss = grad::Loss::kOutput;
    step_.output.clear();
    error_path_ = path_ == "-" ? "stdin" : path_;
    return absl::OkStatus();
  }

  absl::Status Rewrite() {
    Progress("differentiating");
    const size_t before =
        graph_.block(ir::kMainBlock).nodes.size() - result_.teacher_nodes;
    ASSIGN_OR_RETURN(const grad::StepInfo info, MakeStep(step_, &graph_));
    RETURN_IF_ERROR(PlaceCheckpoints(info));
    RETURN_IF_ERROR(ir::Verify(graph_));
    Describe(info, before);
    RETURN_IF_ERROR(Predict());
    Progress("writing");
    ASSIGN_OR_RETURN(
        onnx::ModelProto proto,
        io::Export(*model_, graph_, {.bind_inputs = graph_.sizes_are_bound}));
    StateSession(&proto);
    RETURN_IF_ERROR(Save(proto, options_.output));
    if (options_.initial_state.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const onnx::ModelProto state, InitialState(info));
    return Save(state, options_.initial_state);
  }

  // The session that the step is for.
  analysis::RuntimeOptions Runtime() const {
    analysis::RuntimeOptions runtime = rewrite::PeakOptions();
    if (options_.session == StepSession::kBare) {
      runtime = analysis::Bare(runtime);
    }
    if (options_.order == NodeOrder::kFile) {
      runtime.execution_order = analysis::ExecutionOrder::kPriorityBased;
    }
    return runtime;
  }

  // In place of what the forward model says, which may be a step itself.
  void StateSession(onnx::ModelProto* proto) const {
    auto* entries = proto->mutable_metadata_props();
    entries->erase(std::remove_if(entries->begin(), entries->end(),
                                  [](const auto& entry) {
                                    return entry.key() == kSessionKey;
                                  }),
                   entries->end());
    std::vector<absl::string_view> fields;
    if (options_.session == StepSession::kBare) {
      fields.emplace_back("\"enable_cpu_mem_arena\": false");
      fields.emplace_back("\"enable_mem_pattern\": false");
    }
    if (options_.order == NodeOrder::kFile) {
      fields.emplace_back("\"execution_order\": \"PRIORITY_BASED\"");
    }
    if (fields.empty()) return;
    onnx::StringStringEntryProto* entry = entries->Add();
    entry->set_key(kSessionKey);
    entry->set_value(absl::StrCat("{", absl::StrJoin(fields, ", "), "}"));
  }

  // And the order of the nodes.
  absl::Status PlaceCheckpoints(const grad::StepInfo& info) {
    const bool depth_first = options_.order == NodeOrder::kDefault;
    // Where forward and backward pass are: for micro-batches in a loop.
    ir::BlockId block = ir::kMainBlock;
    grad::StepInfo planned = info;
    if (step_.accumulate > 1) {
      ASSIGN_OR_RETURN(
          const grad::AccumulatedStep made,
          grad::AccumulateGradients(step_.accumulate, info, &graph_));
      block = made.body;
      planned.loss = made.body_loss;
      if (depth_first) {
        grad::OrderForDepthFirst(graph_, ir::kMainBlock, info.loss);
      }
    }
    if (options_.checkpoints == Checkpoints::kNone) {
      if (depth_first) {
        grad::OrderForDepthFirst(graph_, block, planned.loss);
        grad::OrderTeacherForDepthFirst(graph_, block, info.teacher);
      }
      return absl::OkStatus();
    }
    Progress("placing checkpoints");
    std::vector<std::string> modules = ModuleNames(*model_, graph_);
    for (ir::NodeId id : info.teacher) {
      if (ir::Index(id) < modules.size()) modules[ir::Index(id)].clear();
    }
    ASSIGN_OR_RETURN(
        const grad::CheckpointPlanner planner,
        grad::CheckpointPlanner::Create({.block = block,
                                         .depth_first = depth_first,
                                         .runtime = Runtime(),
                                         .modules = std::move(modules)},
                                        planned, graph_));
    grad::CheckpointPlan plan;
    switch (options_.checkpoints) {
      case Checkpoints::kNone:
        break;
      case Checkpoints::kSqrt:
        plan = planner.Sqrt();
        break;
      case Checkpoints::kPerLayer: {
        ASSIGN_OR_RETURN(plan, planner.PerLayer());
        break;
      }
      case Checkpoints::kOptimal: {
        ASSIGN_OR_RETURN(const grad::CheckpointSearch search,
                         planner.Search(options_.budget_bytes));
        for (const grad::CheckpointPoint& point : search.curve) {
          result_.curve.push_back({point.peak_bytes, point.plan.overhead});
        }
        ASSIGN_OR_RETURN(plan, ChoosePlan(search));
        break;
      }
    }
    // The planner reads the graph as it was.
    ir::Graph changed = graph_.Clone();
    ASSIGN_OR_RETURN(grad::CheckpointResult made,
                     planner.Insert(plan, &changed));
    graph_ = std::move(changed);
    result_.segments = std::move(made.segments);
    result_.kept = std::move(made.kept);
    result_.wrapped = std::move(made.wrapped);
    result_.overhead = made.overhead;
    return absl::OkStatus();
  }

  absl::StatusOr<grad::CheckpointPlan> ChoosePlan(
      const grad::CheckpointSearch& search) const {
    if (!options_.budget_bytes) return search.curve.back().plan;
    // With room for what predictions are off; where no plan leaves it, the one
    // that leaves the most.
    const int64_t with_room =
        grad::PlannedBudget(*options_.budget_bytes, Runtime().arena);
    for (const grad::CheckpointPoint& point : search.curve) {
      if (point.peak_bytes <= with_room) return point.plan;
    }
    const grad::CheckpointPoint& least = search.curve.back();
    if (least.peak_bytes <= *options_.budget_bytes) return least.plan;
    std::vector<std::string> held;
    held.reserve(search.floor.size());
    for (const auto& [name, bytes] : search.floor) {
      held.push_back(
          absl::StrCat("\"", Printable(name), "\" (", FormatBytes(bytes), ")"));
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("no plan within ", FormatBytes(*options_.budget_bytes),
                     " was found; the least is ", FormatBytes(least.peak_bytes),
                     ", held by ", absl::StrJoin(held, ", ")));
  }

  absl::Status Predict() {
    analysis::AnalysisManager analyses(&graph_);
    ASSIGN_OR_RETURN(const analysis::RuntimePrediction predicted,
                     analysis::PredictRuntime(graph_, analyses, Runtime()));
    if (!predicted.complete) return absl::OkStatus();
    result_.peak_first_bytes = predicted.peak_first_bytes;
    result_.peak_steady_bytes = predicted.peak_steady_bytes;
    return absl::OkStatus();
  }

  void Describe(const grad::StepInfo& info, size_t nodes_before) {
    result_.parameters = info.parameters.size();
    for (ir::ValueId id : info.parameters) {
      const ir::Weight& weight = graph_.weight(info.initial.lookup(id));
      result_.parameter_elements += weight.num_elements();
    }
    result_.parameter_bytes = info.parameter_bytes;
    result_.state_bytes = info.state_bytes;
    result_.session = options_.session;
    result_.micro_batches = step_.accumulate;
    result_.saved_bytes = info.saved_bytes;
    result_.forward_nodes = nodes_before;
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      if (!graph_.erased(ir::NodeId{static_cast<uint32_t>(i)})) ++result_.nodes;
    }
    result_.frozen = info.frozen;
    result_.notes.insert(result_.notes.end(), info.notes.begin(),
                         info.notes.end());
  }

  absl::Status Save(const onnx::ModelProto& proto, const std::string& path) {
    error_path_ = path == "-" ? "stdout" : path;
    ASSIGN_OR_RETURN(
        io::SaveResult saved,
        io::Save(proto, *model_, path,
                 {.external_data = SaveMode(options_.external_data)}));
    error_path_ = path_;
    for (std::string& file : saved.files) {
      result_.outputs.push_back(std::move(file));
    }
    return absl::OkStatus();
  }

  // A model without nodes: its initializers are the parameters as the forward
  // model has them, and states of zeros. Their bytes go from file to file.
  absl::StatusOr<onnx::ModelProto> InitialState(
      const grad::StepInfo& info) const {
    onnx::ModelProto state;
    state.set_ir_version(model_->proto().ir_version());
    *state.mutable_opset_import() = model_->proto().opset_import();
    state.set_producer_name("onnx-memopt");
    onnx::GraphProto* graph = state.mutable_graph();
    graph->set_name("initial_state");
    absl::flat_hash_map<std::string, const onnx::TensorProto*> source;
    // Those of branches and bodies that were written out, too.
    RETURN_IF_ERROR(io::ForEachTensor(
        model_->proto(),
        [&](const onnx::TensorProto& tensor, const io::TensorPlace& place) {
          if (place.is_initializer) source.try_emplace(tensor.name(), &tensor);
          return absl::OkStatus();
        }));
    absl::flat_hash_map<std::string, ir::WeightId> weights;
    for (const auto* ids : {&info.parameters, &info.statistics}) {
      for (ir::ValueId id : *ids) {
        const ir::Value& value = graph_.value(id);
        weights[value.name] = info.initial.lookup(id);
        const auto tensor = source.find(value.name);
        if (tensor == source.end()) {
          return absl::InvalidArgumentError(absl::StrCat(
              "\"", Printable(value.name),
              "\" has another name in the model, in a branch that shares its "
              "name with another one: freeze it, or rename it there"));
        }
        *graph->add_initializer() = *tensor->second;
      }
    }
    for (const grad::StateInfo& added : info.states) {
      const ir::Weight& weight = graph_.weight(weights.at(added.parameter));
      if (weight.size_bytes > kMaxStateBytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "state \"", Printable(added.name), "\" is too large to write"));
      }
      onnx::TensorProto* tensor = graph->add_initializer();
      tensor->set_name(added.name);
      tensor->set_data_type(static_cast<int32_t>(weight.element));
      tensor->mutable_dims()->Add(weight.dims.begin(), weight.dims.end());
      tensor->set_raw_data(
          std::string(static_cast<size_t>(weight.size_bytes), '\0'));
    }
    std::vector<std::string> zeros = {"step"};
    if (info.has_seed) zeros.emplace_back("seed");
    if (info.has_loss_scale) {
      zeros.emplace_back("good_steps");
      onnx::TensorProto* scale = graph->add_initializer();
      scale->set_name("loss_scale");
      scale->set_data_type(onnx::TensorProto::FLOAT);
      scale->add_float_data(static_cast<float>(step_.loss_scale));
    }
    for (const std::string& name : zeros) {
      onnx::TensorProto* number = graph->add_initializer();
      number->set_name(name);
      number->set_data_type(onnx::TensorProto::INT64);
      number->set_raw_data(std::string(sizeof(int64_t), '\0'));
    }
    return state;
  }

  const std::string& path_;
  const TrainOptions& options_;
  std::string error_path_;  // the file that is being read or written
  std::shared_ptr<const io::LoadedModel> model_;
  ir::Graph graph_;
  grad::StepOptions step_;
  TrainResult result_;
};

}  // namespace

absl::StatusOr<TrainResult> Train(const std::string& path,
                                  const TrainOptions& options) {
  return Run(path, options).Execute();
}

}  // namespace onnx_memopt
