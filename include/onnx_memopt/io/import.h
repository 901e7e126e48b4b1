// From a loaded model to the IR: names become ids, node lists are sorted, calls
// of model-local functions get bodies of their own, and every value gets the
// type that follows from the inputs.
//
//   ASSIGN_OR_RETURN(auto model, Load("model.onnx", {}));
//   ASSIGN_OR_RETURN(ir::Graph graph,
//                    Import(model, {.dims = {{"batch", 8}}}));
//
// Errors (kInvalidArgument) name the node and the tensor: undefined and
// duplicate names, cycles, tensors of more than 2^63 bytes, weights whose data
// does not fit their shape. A type that cannot be inferred is not an error: it
// stays unknown.
#ifndef ONNX_MEMOPT_IO_IMPORT_H_
#define ONNX_MEMOPT_IO_IMPORT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::io {

struct ImportOptions {
  // Named dimensions of the inputs to bind. What is not bound stays symbolic.
  ir::Bindings dims;
  // Shapes of inputs by name, in place of those that the model states. A named
  // dimension in them is bound for the other inputs too. See NameInputShape for
  // the empty name.
  std::map<std::string, std::vector<int64_t>> input_shapes;
};

// A shape under the empty name is meant for the model's only input: moves it to
// that name. Initializers that are listed among the inputs do not count. An
// error that lists the inputs if there are several, or none.
absl::Status NameInputShape(const LoadedModel& model, ImportOptions* options);

// Checks that every name in `options` exists in the model, that sizes are
// positive, ranks agree, and no name is given two sizes. The message lists the
// names that exist.
absl::Status CheckImportOptions(const LoadedModel& model,
                                const ImportOptions& options);

// The sizes that a shape, given for an input that exists, gives to dimensions
// which the model leaves open: by their names, INPUT[INDEX] where they have
// none. False where the model states no shape for it, one of another rank, or
// another number.
bool NamesOfShape(const LoadedModel& model, const std::string& input,
                  const std::vector<int64_t>& sizes, ir::Bindings* names);

absl::StatusOr<ir::Graph> Import(std::shared_ptr<const LoadedModel> model,
                                 const ImportOptions& options);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_IMPORT_H_
