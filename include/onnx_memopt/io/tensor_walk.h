// Visits every TensorProto of a model in a fixed order: the main graph, local
// functions, training graphs; in a graph its initializers, sparse initializers,
// then the attributes of its nodes with their subgraphs.
//
//   RETURN_IF_ERROR(ForEachTensor(model, [](const onnx::TensorProto& tensor,
//                                           const TensorPlace& place) {
//     return absl::OkStatus();
//   }));
#ifndef ONNX_MEMOPT_IO_TENSOR_WALK_H_
#define ONNX_MEMOPT_IO_TENSOR_WALK_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"

namespace onnx_memopt::io {

struct TensorPlace {
  // For messages: the tensor's own name, else the first output of the node
  // whose attribute it is. A view into the model.
  absl::string_view name;
  bool is_initializer = false;  // dense; of the main graph or a subgraph
};

// The first error that `visit` returns ends the walk. Graphs nested too deep
// are an error.
absl::Status ForEachTensor(const onnx::ModelProto& model,
                           absl::FunctionRef<absl::Status(
                               const onnx::TensorProto&, const TensorPlace&)>
                               visit);
absl::Status ForEachMutableTensor(
    onnx::ModelProto* model,
    absl::FunctionRef<absl::Status(onnx::TensorProto*, const TensorPlace&)>
        visit);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_TENSOR_WALK_H_
