// The facts of a smaller model that could stand in for this one. Private to
// lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_CHANGE_MODEL_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_CHANGE_MODEL_H_

#include "onnx_memopt/estimate/configuration.h"

namespace onnx_memopt::estimate {

// Changes `view`, whose facts and blocks are set. Does nothing where the model
// has no repeated blocks to share or leave out.
void ChangeModel(ModelChange change, Model::View* view);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_CHANGE_MODEL_H_
