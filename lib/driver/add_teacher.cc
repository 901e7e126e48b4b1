#include "driver/add_teacher.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_memopt/grad/activity.h"
#include "onnx_memopt/io/append_model.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

namespace fs = std::filesystem;
using ir::ValueId;

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  return fs::absolute(a, error).lexically_normal() ==
         fs::absolute(b, error).lexically_normal();
}

class Adder {
 public:
  Adder(const TrainOptions& options,
        const std::shared_ptr<const io::LoadedModel>& student,
        const ir::Graph& student_graph)
      : options_(options), student_(student), student_graph_(student_graph) {}

  absl::StatusOr<AddedTeacher> Run() {
    for (const std::string* output :
         {&options_.output, &options_.initial_state}) {
      if (output->empty() || *output == "-" ||
          !SameFile(*output, options_.teacher)) {
        continue;
      }
      return absl::OutOfRangeError(
          absl::StrCat("\"", Printable(*output),
                       "\" is the teacher: give another file for the output"));
    }
    ASSIGN_OR_RETURN(teacher_, io::Load(options_.teacher, {}));
    ASSIGN_OR_RETURN(graph_, io::Import(teacher_, {}));
    RETURN_IF_ERROR(CheckWeights());
    AddedTeacher added;
    ASSIGN_OR_RETURN(added.output, ChooseOutput());
    added.prefix = io::FreePrefix(*student_, "teacher");
    io::AppendOptions append = {.prefix = added.prefix};
    RETURN_IF_ERROR(ShareInputs(&append, &added));
    ASSIGN_OR_RETURN(added.model, io::AppendModel(student_, teacher_, append));
    added.nodes = graph_.block(ir::kMainBlock).nodes.size();
    added.weight_bytes = weight_bytes_;
    return added;
  }

 private:
  // A teacher without them knows nothing.
  absl::Status CheckWeights() {
    for (size_t i = 0; i < graph_.num_weights(); ++i) {
      const ir::Weight& weight =
          graph_.weight(ir::WeightId{static_cast<uint32_t>(i)});
      weight_bytes_ += weight.size_bytes;
      if (weight.storage != ir::WeightStorage::kExternal) continue;
      std::error_code error;
      const auto size = fs::file_size(weight.external.path, error);
      const int64_t end =
          weight.external.offset_bytes + weight.external.length_bytes;
      if (!error && static_cast<int64_t>(size) >= end) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the weights of a teacher are needed, and those of \"",
                       Printable(weight.name), "\" are not there: ",
                       error ? error.message() : "the file is too short", " (",
                       Printable(weight.external.path), ")"));
    }
    const std::vector<ValueId>& weights =
        graph_.block(ir::kMainBlock).initializers;
    if (std::any_of(weights.begin(), weights.end(), [&](ValueId id) {
          return grad::HasGradient(graph_.value(id).type);
        })) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "a teacher is a trained model, and this one has no weights");
  }

  // Those of a floating-point type.
  static std::vector<std::string> OutputsOf(const ir::Graph& graph) {
    std::vector<std::string> names;
    for (ValueId id : graph.block(ir::kMainBlock).results) {
      if (grad::HasGradient(graph.value(id).type)) {
        names.push_back(graph.value(id).name);
      }
    }
    return names;
  }

  // The one that is asked for; or that of the student's name; or the only one.
  absl::StatusOr<std::string> ChooseOutput() const {
    const grad::Distillation& d = *options_.step.distillation;
    const std::vector<std::string> names = OutputsOf(graph_);
    std::string wanted = d.teacher_output;
    const bool asked = !wanted.empty();
    if (!asked) wanted = d.soft_output;
    if (wanted.empty()) wanted = options_.step.output;
    const std::vector<std::string> students = OutputsOf(student_graph_);
    if (wanted.empty() && students.size() == 1) wanted = students.front();
    for (const std::string& name : names) {
      if (name == wanted) return name;
    }
    if (!asked && names.size() == 1) return names.front();
    if (d.alpha == 0) return std::string();
    std::vector<std::string> quoted;
    quoted.reserve(names.size());
    for (const std::string& name : names) {
      quoted.push_back(absl::StrCat("\"", Printable(name), "\""));
    }
    if (quoted.empty()) {
      return absl::InvalidArgumentError(
          "no output of the teacher is of a floating-point type");
    }
    return absl::OutOfRangeError(
        asked ? absl::StrCat("the teacher has no output \"", Printable(wanted),
                             "\"; it has ", absl::StrJoin(quoted, ", "))
              : absl::StrCat("the teacher has several outputs; say which one "
                             "is compared with --teacher-output: ",
                             absl::StrJoin(quoted, ", ")));
  }

  // What the student takes, the teacher takes too.
  static bool Accepts(const ir::Type& teacher, const ir::Type& student) {
    if (teacher.kind != student.kind || teacher.element != student.element) {
      return false;
    }
    if (!teacher.shape || !student.shape) return !teacher.shape;
    if (teacher.shape->size() != student.shape->size()) return false;
    for (size_t i = 0; i < teacher.shape->size(); ++i) {
      const std::optional<ir::Dim>& own = (*teacher.shape)[i];
      const std::optional<ir::Dim>& given = (*student.shape)[i];
      if (own && own->is_constant() && (!given || *given != *own)) return false;
    }
    return true;
  }

  absl::Status ShareInputs(io::AppendOptions* append, AddedTeacher* added) {
    const std::vector<ValueId>& students =
        student_graph_.block(ir::kMainBlock).params;
    const std::vector<ValueId>& teachers = graph_.block(ir::kMainBlock).params;
    std::map<std::string, ValueId> by_name;
    for (ValueId id : students) by_name[student_graph_.value(id).name] = id;
    std::set<ValueId> taken;
    for (ValueId id : teachers) {
      const ir::Value& input = graph_.value(id);
      const auto same = by_name.find(input.name);
      if (same == by_name.end()) continue;
      const ir::Type& given = student_graph_.value(same->second).type;
      if (!Accepts(input.type, given)) {
        return absl::OutOfRangeError(absl::StrCat(
            "input \"", Printable(input.name), "\" is ",
            ir::ToString(input.type), " in the teacher, and ",
            ir::ToString(given),
            " in the student: they have to agree, with --dim or --input-shape "
            "where sizes are open"));
      }
      append->inputs[input.name] = input.name;
      taken.insert(same->second);
    }
    for (size_t i = 0; i < teachers.size(); ++i) {
      const ir::Value& input = graph_.value(teachers[i]);
      if (append->inputs.contains(input.name)) continue;
      if (i < students.size() && !taken.contains(students[i])) {
        const ir::Value& place = student_graph_.value(students[i]);
        if (Accepts(input.type, place.type)) {
          append->inputs[input.name] = place.name;
          taken.insert(students[i]);
          added->notes.push_back(absl::StrCat("input \"", Printable(place.name),
                                              "\" is the teacher's \"",
                                              Printable(input.name), "\" too"));
          continue;
        }
      }
      added->notes.push_back(absl::StrCat(
          "the teacher has an input of its own: \"", Printable(added->prefix),
          Printable(input.name), "\", ", ir::ToString(input.type)));
    }
    return absl::OkStatus();
  }

  const TrainOptions& options_;
  const std::shared_ptr<const io::LoadedModel>& student_;
  const ir::Graph& student_graph_;
  std::shared_ptr<const io::LoadedModel> teacher_;
  ir::Graph graph_;  // the teacher's
  int64_t weight_bytes_ = 0;
};

}  // namespace

absl::StatusOr<AddedTeacher> AddTeacher(
    const TrainOptions& options,
    const std::shared_ptr<const io::LoadedModel>& student,
    const ir::Graph& graph) {
  return Adder(options, student, graph).Run();
}

}  // namespace onnx_memopt
