// What a report says of training the model: what the backward pass would keep
// of the forward pass, and plans that keep less.
//
// The step is the one of `onnx-memopt train` with gradients only, no updates,
// of the mean squared size of the first floating-point output: what is kept
// hardly depends on the loss.
#ifndef ONNX_MEMOPT_LIB_DRIVER_TRAINING_SECTION_H_
#define ONNX_MEMOPT_LIB_DRIVER_TRAINING_SECTION_H_

#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt {

// `graph` as it was read. A model that cannot be trained has the reason.
ReportTraining DescribeTraining(const io::LoadedModel& model,
                                const ir::Graph& graph);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_TRAINING_SECTION_H_
