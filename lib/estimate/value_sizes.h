// How large values are for any batch. Private to lib/estimate.
//
//   ValueSizes sizes(graph, flow, FindBatchSymbol(graph));
//   sizes.Elements(value, &unknown).At(/*batch=*/32);
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_VALUE_SIZES_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_VALUE_SIZES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimate/gradient_flow.h"
#include "onnx_memopt/estimate/model_facts.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

class ValueSizes {
 public:
  // An empty `batch_symbol`: the batch is the first dim of the first input. The
  // arguments must outlive the object.
  ValueSizes(const ir::Graph& graph, const GradientFlow& flow,
             const std::string& batch_symbol);

  // The batch that the model is for; 1 where it is symbolic.
  int64_t model_batch() const { return model_batch_; }
  // For a batch of 1, where it is symbolic.
  std::optional<int64_t> Evaluate(const ir::Dim& dim) const {
    return dim.Evaluate(one_);
  }
  // nullopt where a name has no size. `depends`: on the data of an input.
  std::optional<Amount> ToAmount(const ir::Dim& dim, bool depends) const;
  // 0 where unknown; then the name is added to `unknown`.
  Amount Elements(ir::ValueId value, std::vector<std::string>* unknown) const;
  // Elements with the dims from `axis` on left out: one for each row.
  Amount Rows(ir::ValueId value, int64_t axis) const;
  // As BufferFact::bits.
  int64_t Bits(ir::ValueId value) const;

 private:
  const ir::Graph& graph_;
  const GradientFlow& flow_;
  bool symbolic_;
  ir::Bindings one_;  // for a batch of 1
  ir::Bindings two_;
  int64_t model_batch_ = 1;
};

// Saturates.
Amount Times(const Amount& amount, int64_t factor);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_VALUE_SIZES_H_
