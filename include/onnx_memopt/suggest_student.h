// A smaller network of the same structure: fewer of its repeated blocks, and
// narrower ones. Its weights are untrained; it is a student for `train
// --teacher` (train.h).
//
//   StudentOptions options{.layers_ratio = 0.5, .output = "student.onnx"};
//   absl::StatusOr<StudentResult> result = SuggestStudent("bert.onnx",
//   options);
//
// Errors: kOutOfRange for options that do not fit the model, with what is in
// the way; anything else for the model file.
#ifndef ONNX_MEMOPT_SUGGEST_STUDENT_H_
#define ONNX_MEMOPT_SUGGEST_STUDENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace onnx_memopt {

struct StudentOptions {
  // How many blocks each run of equal ones keeps, at most; or which part of
  // them. Neither: half, unless a width is given.
  std::optional<int64_t> layers;
  std::optional<double> layers_ratio;
  // Of the new width to the old one.
  std::optional<double> width;
  // Outputs that may be narrower than those of the model.
  std::vector<std::string> narrow_outputs;
  uint64_t seed = 0;  // of the weights

  // Of the estimates: sizes of named dimensions, and the batch.
  std::map<std::string, int64_t> dims;
  std::optional<int64_t> batch;

  std::string output;  // empty: only say what it would be; "-": stdout
  std::string external_dir;
};

struct StudentMemory {
  int64_t parameters = 0;
  int64_t parameter_bytes = 0;
  // Weights, gradients, the state of Adam and activations in PyTorch, by
  // Estimate; nullopt where a size is open.
  std::optional<int64_t> training_bytes;
  std::optional<int64_t> saved_activation_bytes;
};

struct StudentLayers {
  std::string first_node;  // of the first block
  size_t nodes = 0;        // of each
  size_t before = 0;
  size_t after = 0;
};

// Extents of this size that became smaller.
struct StudentWidth {
  int64_t from = 0;
  int64_t to = 0;
  size_t weights = 0;  // how many weights' axes have it
};

struct StudentResult {
  std::vector<StudentLayers> layers;
  std::vector<StudentWidth> widths;
  StudentMemory teacher;
  StudentMemory student;
  int64_t batch = 1;
  std::vector<std::string> notes;
  std::vector<std::string> outputs;  // files that were written
};

absl::StatusOr<StudentResult> SuggestStudent(const std::string& path,
                                             const StudentOptions& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUGGEST_STUDENT_H_
