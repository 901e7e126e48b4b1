// One node through ONNX's own type and shape inference.
#ifndef ONNX_MEMOPT_LIB_IO_ONNX_INFERENCE_H_
#define ONNX_MEMOPT_LIB_IO_ONNX_INFERENCE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "io/type_proto.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::io {

// What ONNX's inference is told of one node. Entries of operands that are left
// out are null.
struct OnnxInferenceRequest {
  absl::string_view op_type;
  absl::string_view domain;
  int opset = 0;
  absl::flat_hash_map<std::string, const onnx::AttributeProto*> attributes;
  std::vector<const ir::Type*> operand_types;
  std::vector<std::shared_ptr<const ir::Contents>> operand_contents;
  // Constant operands whose data is at hand (small ones); null otherwise.
  std::vector<const onnx::TensorProto*> operand_data;
  size_t num_results = 0;
};

struct OnnxInferenceResult {
  std::vector<ir::Type> result_types;  // as far as inferred
  std::string error;  // what ONNX found wrong with the node; empty if nothing
};

// An op without a schema gives no types and no error.
OnnxInferenceResult InferWithOnnx(const OnnxInferenceRequest& request,
                                  NamedDims* names);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_ONNX_INFERENCE_H_
