#include "grad/lower_model.h"

#include "grad/lower_attention.h"
#include "grad/lower_control.h"
#include "grad/lower_recurrent.h"
#include "grad/lower_sequences.h"

namespace onnx_memopt::grad {

void LowerModel(rewrite::Builder& builder) {
  // First what may hold the others.
  LowerControl(builder);
  LowerAttention(builder);
  LowerSequences(builder);
  LowerRecurrent(builder);
}

}  // namespace onnx_memopt::grad
