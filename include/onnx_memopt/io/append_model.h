// Two models as one: the graph of a second model beside that of the first.
//
//   // Its values are "teacher/NAME" afterwards, but for the input "x", which
//   // is the first model's "pixels".
//   ASSIGN_OR_RETURN(auto both, AppendModel(first, second,
//                    {.prefix = "teacher/", .inputs = {{"x", "pixels"}}}));
//
// Weights stay where they are: payloads in their mapped files, external data at
// its locations, which from now on are relative to the nearest folder that is
// above both models.
#ifndef ONNX_MEMOPT_IO_APPEND_MODEL_H_
#define ONNX_MEMOPT_IO_APPEND_MODEL_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/io/loaded_model.h"

namespace onnx_memopt::io {

struct AppendOptions {
  // Of all values and nodes of the second model. None of the first may have a
  // name that begins with it (FreePrefix).
  std::string prefix;
  // Inputs of the second model that are values of the first; the others become
  // inputs of the result, with the prefix.
  std::map<std::string, std::string> inputs;
};

// Path, file and digest are those of `first`, and so are outputs, metadata and
// training_info; outputs of `second` become ordinary values. An error where the
// two import different versions of the same operators, or have different
// functions of the same name.
absl::StatusOr<std::shared_ptr<const LoadedModel>> AppendModel(
    std::shared_ptr<const LoadedModel> first,
    std::shared_ptr<const LoadedModel> second, const AppendOptions& options);

// "BASE/", or "BASE_2/" and so on where the model has names that begin so.
std::string FreePrefix(const LoadedModel& model, const std::string& base);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_APPEND_MODEL_H_
