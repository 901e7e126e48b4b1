// The teacher of a distillation beside its student, as one model.
#ifndef ONNX_MEMOPT_LIB_DRIVER_ADD_TEACHER_H_
#define ONNX_MEMOPT_LIB_DRIVER_ADD_TEACHER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/train.h"

namespace onnx_memopt {

struct AddedTeacher {
  std::shared_ptr<const io::LoadedModel> model;  // both
  std::string prefix;                            // of all names of the teacher
  std::string output;                            // without the prefix
  size_t nodes = 0;
  int64_t weight_bytes = 0;
  std::vector<std::string> notes;
};

// Reads the teacher of `options`. `graph`: that of `student`, with the sizes
// that the step is to have. Inputs of one name are shared, and those of one
// place and type. kOutOfRange where options do not fit the teacher.
absl::StatusOr<AddedTeacher> AddTeacher(
    const TrainOptions& options,
    const std::shared_ptr<const io::LoadedModel>& student,
    const ir::Graph& graph);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_ADD_TEACHER_H_
