// The teacher of a distillation, in the graph of its student.
#ifndef ONNX_MEMOPT_LIB_GRAD_TEACHER_H_
#define ONNX_MEMOPT_LIB_GRAD_TEACHER_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/grad/step_options.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

// Takes the teacher's nodes out of the main block's schedule, in order: what is
// done to the student then leaves them alone. BatchNormalization and Dropout
// among them run as in inference from now on.
absl::StatusOr<std::vector<ir::NodeId>> TakeTeacher(
    const Distillation& distillation, ir::Graph* graph);

// What of the student is compared with what of the teacher.
struct Comparison {
  ir::ValueId student;
  ir::ValueId teacher;
};
struct Comparisons {
  // kNoValue for both where alpha is 0.
  Comparison output = {ir::kNoValue, ir::kNoValue};
  std::vector<Comparison> features;
};

// `output`: the student's. Errors (kOutOfRange) list near names where there is
// no such tensor, and both types where these differ.
absl::StatusOr<Comparisons> FindComparisons(
    const StepOptions& options, ir::ValueId output,
    const std::vector<ir::NodeId>& teacher, const ir::Graph& graph);

// An error for a tensor of the student that no parameter is before: it learns
// nothing.
absl::Status CheckFeatures(const Comparisons& compared,
                           const std::vector<ir::ValueId>& parameters,
                           const ir::Graph& graph);

// Puts the teacher's nodes first in the main block's schedule, with those of it
// that read the teacher's results and constants alone; these are appended.
void PutTeacherFirst(std::vector<ir::NodeId>* teacher, ir::Graph* graph);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_TEACHER_H_
