#include "grad/teacher.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/grad/activity.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/near_names.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::NodeId;
using ir::ValueId;

// How many of the names that there are an error lists.
constexpr size_t kNearNames = 4;

// Draws, or takes statistics of the batch.
bool MayTrain(const ir::Node& node) {
  if (!node.domain.empty()) return false;
  if (node.op_type == "Dropout") return node.operands.size() > 2;
  return node.op_type == "BatchNormalization" &&
         ir::IntAttribute(node, "training_mode", 0) != 0;
}

void RunAsInInference(ir::Node* node) {
  if (node->op_type == "Dropout") {
    // Without the third operand it passes its input on.
    node->operands.resize(2);
    return;
  }
  std::erase_if(node->attributes, [](const ir::Attribute& attribute) {
    return attribute.name == "training_mode";
  });
  node->ForgetSource();
  // Behind it are the running statistics, which only training gives.
  node->results.resize(1);
}

bool BelongsTo(const std::string& prefix, NodeId id, const ir::Graph& graph) {
  const auto& results = graph.node(id).results;
  return std::any_of(results.begin(), results.end(), [&](ValueId result) {
    return result != ir::kNoValue &&
           absl::StartsWith(graph.value(result).name, prefix);
  });
}

// Tensors that nodes compute, by name.
class Names {
 public:
  Names(absl::string_view owner, std::string prefix)
      : owner_(owner), prefix_(std::move(prefix)) {}

  void Add(const std::vector<NodeId>& nodes, const ir::Graph& graph) {
    for (NodeId id : nodes) {
      for (ValueId result : graph.node(id).results) {
        if (result == ir::kNoValue) continue;
        std::string name(absl::StripPrefix(graph.value(result).name, prefix_));
        if (HasGradient(graph.value(result).type)) names_.push_back(name);
        values_.emplace(std::move(name), result);
      }
    }
  }

  absl::StatusOr<ValueId> Find(const std::string& name) const {
    const auto it = values_.find(name);
    if (it != values_.end()) return it->second;
    std::vector<std::string> near;
    for (const size_t i : NearNames(name, names_, kNearNames)) {
      near.push_back(absl::StrCat("\"", Printable(names_[i]), "\""));
    }
    return absl::OutOfRangeError(
        absl::StrCat("the ", owner_, " computes no tensor \"", Printable(name),
                     "\"; near names: ", absl::StrJoin(near, ", ")));
  }

 private:
  absl::string_view owner_;
  std::string prefix_;
  absl::flat_hash_map<std::string, ValueId> values_;
  std::vector<std::string> names_;  // of floating-point tensors, in order
};

// Where the shapes of both are known they are equal, so that nothing is
// broadcast.
bool MayCompare(const ir::Type& a, const ir::Type& b) {
  if (!HasGradient(a) || !HasGradient(b)) return false;
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return false;
  for (size_t i = 0; i < a.shape->size(); ++i) {
    const std::optional<ir::Dim>& x = (*a.shape)[i];
    const std::optional<ir::Dim>& y = (*b.shape)[i];
    if (x && y && *x != *y) return false;
  }
  return true;
}

absl::Status CheckTypes(const Comparison& pair, const std::string& prefix,
                        const ir::Graph& graph) {
  const ir::Value& student = graph.value(pair.student);
  const ir::Value& teacher = graph.value(pair.teacher);
  if (MayCompare(student.type, teacher.type)) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("the student's \"", Printable(student.name), "\" is ",
                   ir::ToString(student.type), ", and the teacher's \"",
                   Printable(absl::StripPrefix(teacher.name, prefix)), "\" is ",
                   ir::ToString(teacher.type), ": they cannot be compared"));
}

}  // namespace

absl::StatusOr<std::vector<NodeId>> TakeTeacher(
    const Distillation& distillation, ir::Graph* graph) {
  std::vector<NodeId> teacher;
  std::vector<NodeId> student;
  for (NodeId id : graph->block(ir::kMainBlock).nodes) {
    const bool is_teacher = BelongsTo(distillation.prefix, id, *graph);
    (is_teacher ? teacher : student).push_back(id);
  }
  graph->mutable_block(ir::kMainBlock).nodes = std::move(student);
  for (NodeId id : teacher) {
    if (MayTrain(graph->node(id))) {
      RunAsInInference(&graph->mutable_node(id));
    }
    for (const ir::BlockId block : BlocksWithin(*graph, id)) {
      for (NodeId inner : graph->block(block).nodes) {
        if (!MayTrain(graph->node(inner))) continue;
        if (graph->block(block).kind == ir::BlockKind::kCallBody) {
          return absl::InvalidArgumentError(absl::StrCat(
              "node \"", Printable(graph->DisplayName(inner)),
              "\" of the teacher trains, and is in a function: inline it"));
        }
        RunAsInInference(&graph->mutable_node(inner));
      }
    }
  }
  return teacher;
}

absl::StatusOr<Comparisons> FindComparisons(const StepOptions& options,
                                            ValueId output,
                                            const std::vector<NodeId>& teacher,
                                            const ir::Graph& graph) {
  const Distillation& distillation = *options.distillation;
  Names students("student", "");
  students.Add(graph.block(ir::kMainBlock).nodes, graph);
  Names teachers("teacher", distillation.prefix);
  teachers.Add(teacher, graph);
  Comparisons found;
  if (distillation.alpha > 0) {
    found.output.student = output;
    if (!distillation.soft_output.empty()) {
      ASSIGN_OR_RETURN(found.output.student,
                       students.Find(distillation.soft_output));
    } else if (options.loss == Loss::kOutput) {
      return absl::OutOfRangeError(
          "the model computes its loss itself: say with --soft-output which of "
          "its tensors is compared with the teacher's output");
    }
    ASSIGN_OR_RETURN(found.output.teacher,
                     teachers.Find(distillation.teacher_output));
    RETURN_IF_ERROR(CheckTypes(found.output, distillation.prefix, graph));
  }
  for (const auto& [student, of_teacher] : distillation.match) {
    Comparison pair = {ir::kNoValue, ir::kNoValue};
    ASSIGN_OR_RETURN(pair.student, students.Find(student));
    ASSIGN_OR_RETURN(pair.teacher, teachers.Find(of_teacher));
    RETURN_IF_ERROR(CheckTypes(pair, distillation.prefix, graph));
    found.features.push_back(pair);
  }
  // The last one is computed first, and all of the teacher with it.
  llvm::DenseMap<NodeId, size_t> place;
  for (size_t i = 0; i < teacher.size(); ++i) place[teacher[i]] = i;
  std::stable_sort(found.features.begin(), found.features.end(),
                   [&](const Comparison& a, const Comparison& b) {
                     return place.lookup(graph.value(a.teacher).producer) <
                            place.lookup(graph.value(b.teacher).producer);
                   });
  return found;
}

absl::Status CheckFeatures(const Comparisons& compared,
                           const std::vector<ValueId>& parameters,
                           const ir::Graph& graph) {
  if (compared.features.empty()) return absl::OkStatus();
  std::vector<ValueId> students;
  students.reserve(compared.features.size());
  for (const Comparison& pair : compared.features) {
    students.push_back(pair.student);
  }
  const Activity activity = Activity::Compute(graph, parameters, students);
  for (const Comparison& pair : compared.features) {
    if (activity.active(pair.student)) continue;
    return absl::OutOfRangeError(
        absl::StrCat("--match: no parameter of the student is before \"",
                     Printable(graph.value(pair.student).name), "\""));
  }
  return absl::OkStatus();
}

void PutTeacherFirst(std::vector<NodeId>* teacher, ir::Graph* graph) {
  if (teacher->empty()) return;
  std::vector<NodeId>& schedule = graph->mutable_block(ir::kMainBlock).nodes;
  llvm::DenseSet<NodeId> own(teacher->begin(), teacher->end());
  std::vector<NodeId> others;
  for (NodeId id : schedule) {
    bool any = false;
    bool all = true;
    for (ValueId operand : graph->node(id).operands) {
      if (operand == ir::kNoValue) continue;
      const ir::Value& value = graph->value(operand);
      const bool is_own =
          value.kind == ir::ValueKind::kResult && own.contains(value.producer);
      any = any || is_own;
      all = all && (is_own || value.kind == ir::ValueKind::kInitializer);
    }
    if (any && all) {
      own.insert(id);
      teacher->push_back(id);
    } else {
      others.push_back(id);
    }
  }
  schedule = *teacher;
  schedule.insert(schedule.end(), others.begin(), others.end());
}

}  // namespace onnx_memopt::grad
