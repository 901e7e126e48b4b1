// Which floating-point values have 32 bits where the others have 16. Private to
// lib/estimate.
//
// A model whose weights are 16-bit numbers says so itself: what it computes in
// float32 (a softmax, a norm) is float32 in the graph. Under autocast weights
// and inputs are float32; products take and give 16 bits, some ops (softmax,
// norms, exp, sums) float32, and all others what they get, the wider of two:
//
//   x 32 -> MatMul -> 16 -> Softmax -> 32 -> MatMul -> 16 -> Add(x) -> 32
//        copy in 16 bits           copy in 16 bits
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_NUMBER_WIDTH_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_NUMBER_WIDTH_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "estimate/gradient_flow.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

// What autocast turns the operands of an op into first.
enum class CastTo : uint8_t { kNothing, kHalf, kFloat };
CastTo AutocastOf(absl::string_view op);

class NumberWidths {
 public:
  // The arguments must outlive the object.
  NumberWidths(const ir::Graph& graph, const GradientFlow& flow, bool autocast);

  bool autocast() const { return autocast_; }
  // Of each node in the order of execution, before its results are asked for.
  void Visit(const ir::Node& node);
  // An operator that stands for several nodes gives this.
  void Set(ir::ValueId value, CastTo cast);
  // float32, whatever the precision of the activations.
  bool IsWide(ir::ValueId value) const { return wide_[ir::Index(value)]; }

 private:
  bool Promotes(ir::ValueId operand) const;
  void ReadGraph();

  const ir::Graph& graph_;
  const GradientFlow& flow_;
  bool autocast_;
  std::vector<bool> wide_;  // by ValueId
};

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_NUMBER_WIDTH_H_
