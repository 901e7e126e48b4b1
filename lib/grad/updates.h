// An optimizer's update of one parameter.
#ifndef ONNX_MEMOPT_LIB_GRAD_UPDATES_H_
#define ONNX_MEMOPT_LIB_GRAD_UPDATES_H_

#include <map>
#include <string>
#include <vector>

#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

// The suffixes of the states that a parameter has: "momentum".
std::vector<std::string> StateSuffixes(Optimizer optimizer);

class Updates {
 public:
  Updates(rewrite::Emitter* emitter, const StepOptions& options,
          ir::ValueId learning_rate, ir::ValueId step);

  struct Next {
    ir::ValueId parameter;
    std::vector<ir::ValueId> states;
  };
  // `states` in the order of StateSuffixes.
  Next Update(ir::ValueId parameter, ir::ValueId gradient,
              const std::vector<ir::ValueId>& states);

 private:
  Next Momentum(ir::ValueId p, ir::ValueId g, ir::ValueId velocity);
  Next Adam(ir::ValueId p, ir::ValueId g, ir::ValueId m, ir::ValueId v);
  ir::ValueId Rate(ir::ElementType element);
  // One scalar a type: the rate over the bias of the first moment, the inverse
  // root of that of the second, what decoupled decay leaves.
  struct AdamScalars {
    ir::ValueId rate;
    ir::ValueId second;
    ir::ValueId kept;
  };
  const AdamScalars& Scalars(ir::ElementType element);

  rewrite::Emitter& e_;
  const StepOptions& options_;
  ir::ValueId learning_rate_;
  ir::ValueId step_;
  std::map<ir::ElementType, ir::ValueId> rates_;
  std::map<ir::ElementType, AdamScalars> adam_;
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_UPDATES_H_
