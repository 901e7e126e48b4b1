// What the estimate needs of a model, taken from its graph once: buffers,
// parameters, and the units of work that make and read them, in the order of
// execution. Everything after that is arithmetic on these, so that hundreds of
// configurations can be tried.
//
//   ASSIGN_OR_RETURN(ModelFacts facts, ExtractFacts(graph, {}));
//   facts.buffers[b].Bytes(/*batch=*/32, /*float_bytes=*/2);
//
// A unit is a node, or several that PyTorch runs as one operator and that an
// exporter wrote out (GELU, SiLU, GroupNorm, LayerNorm, a linear layer with its
// bias). What a unit keeps for its gradient is what PyTorch's autograd keeps:
// see torch_saved.h. Values that are views of one another in PyTorch are one
// buffer; there, unlike in ONNX Runtime, Transpose, Split and Slice are views.
//
// The size of a buffer is a number that does not depend on the batch, plus one
// for each sample. Where the model's batch is a fixed number, a buffer that
// depends on the data of an input counts as that number of samples.
#ifndef ONNX_MEMOPT_ESTIMATE_MODEL_FACTS_H_
#define ONNX_MEMOPT_ESTIMATE_MODEL_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

using BufferIndex = int32_t;
using ParameterIndex = int32_t;
using UnitIndex = int32_t;
using BufferList = llvm::SmallVector<BufferIndex, 4>;

// An amount that grows with the batch.
struct Amount {
  int64_t fixed = 0;
  int64_t per_sample = 0;

  // Saturates.
  int64_t At(int64_t batch) const;
};

struct BufferFact {
  std::string name;
  Amount elements;
  // Bits of an element; 0: a floating-point number, as wide as the precision of
  // the activations says.
  int64_t bits = 0;
  bool has_gradient = false;
  bool is_input = false;   // of the model, owned by the caller
  bool is_output = false;  // lives until the step ends
  // Divided among the GPUs of a tensor-parallel group; see tensor_parallel.h.
  bool tensor_split = false;

  int64_t Bytes(int64_t batch, int64_t float_bytes) const;
};

struct ParameterFact {
  std::string name;
  std::vector<int64_t> dims;
  int64_t elements = 0;
  bool tensor_split = false;
  UnitIndex first_use = -1;
};

// Constants and weights that are not trained: running statistics, masks,
// quantized weights. They keep their size.
struct ConstantFact {
  int64_t bytes = 0;
  UnitIndex first_use = -1;
};

struct UnitFact {
  std::string name;  // of the node that makes the result
  std::string op;    // "MatMul", "Gelu", "Attention", ...
  BufferList reads;
  BufferList writes;
  // Kept for backward. A buffer that only this unit knows (a mask, statistics,
  // a contiguous copy) is among `writes` too.
  BufferList saves;
  BufferList gradients;  // of `reads`: those that it gives a gradient to
  llvm::SmallVector<ParameterIndex, 2> parameters;
  // The gradient of the result is passed on as it is (Add).
  bool passes_gradient = false;
  bool in_attention = false;  // between the scores and their use
  Amount flops;
};

struct ModelFacts {
  std::vector<BufferFact> buffers;
  std::vector<ParameterFact> parameters;
  std::vector<ConstantFact> constants;
  std::vector<UnitFact> units;
  // The batch that the model is for; 1 where it is symbolic.
  int64_t model_batch = 1;
  std::string batch_symbol;  // empty: the batch is a number in the model
  std::vector<BufferIndex> outputs;
  size_t output_rank = 0;     // of the first of them that has a gradient
  int64_t largest_layer = 0;  // elements of the parameters of the largest unit
  // Values whose size is unknown and that are left out.
  std::vector<std::string> unknown;
  std::vector<std::string> notes;  // for the report
  bool has_batch_norm = false;
  bool has_dropout = false;
  int64_t convolutions = 0;
  int64_t convolutions_with_norm = 0;
  int64_t attentions = 0;

  int64_t num_parameters() const;
  int64_t constant_bytes() const;
};

struct FactOptions {
  // Attention as one operator that keeps no scores (FlashAttention, PyTorch's
  // scaled_dot_product_attention on a GPU), where the graph has it written out.
  bool fused_attention = false;
  // torch.autocast: weights and inputs are float32, products take and give 16
  // bits. Buffers of 16 bits are those that are as wide as activations are.
  bool autocast = false;
  // The symbolic dimension that is the batch; empty: found by the inputs.
  std::string batch_symbol;
  // Divide the model's tensors among this many GPUs where its products allow.
  int64_t tensor_parallel = 1;
};

// The named dimension that is the first of an input, or empty.
std::string FindBatchSymbol(const ir::Graph& graph);

// Other symbolic dims are as Graph::assumed says. Errors: a tensor-parallel
// degree that does not divide what it must divide.
absl::StatusOr<ModelFacts> ExtractFacts(const ir::Graph& graph,
                                        const FactOptions& options);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_MODEL_FACTS_H_
