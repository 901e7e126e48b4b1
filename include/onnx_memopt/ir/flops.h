// How much arithmetic one run of a node takes: the rules that the op table
// refers to (OpInfo::flops). A count is a polynomial in the model's symbolic
// dimensions, and nullopt where a shape or an attribute that it depends on is
// unknown; a rule never guesses and never throws.
//
// What is counted:
//   - one for an addition, subtraction, multiplication, division, comparison,
//     minimum, rounding, sign change or selection; a multiply-add is two;
//   - kTranscendentalFlops for exp, log, pow, erf, sqrt, sin and their like,
//     about what a vectorised approximation takes;
//   - a sum of n products is 2n: its first addition is onto the bias, or onto
//     zero, so a bias adds nothing;
//   - integer arithmetic (quantised ops) like floating-point arithmetic;
//   - the whole of a matrix, whatever masks and zeros a kernel may skip;
//   - nothing for moving, filling, indexing or decoding data.
// A node with blocks (If, Loop, Scan) or a call has no rule here: its count is
// that of its body.
//
//   const Node& conv = graph.node(n);   // 1x3x224x224, 64 filters of 3x7x7
//   flops::Conv(graph, conv);           // 2 * 64*3*49 * 112*112 = 236027904
#ifndef ONNX_MEMOPT_IR_FLOPS_H_
#define ONNX_MEMOPT_IR_FLOPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "onnx_memopt/ir/op_info.h"

namespace onnx_memopt::ir::flops {

inline constexpr int64_t kTranscendentalFlops = 8;
// exp, add, divide.
inline constexpr int64_t kSigmoidFlops = kTranscendentalFlops + 2;
// max, subtract, exp, sum, divide.
inline constexpr int64_t kSoftmaxFlops = kTranscendentalFlops + 4;
// mean, subtract, square and sum, times inverse deviation, scale, shift.
inline constexpr int64_t kNormalizationFlops = 7;

// per_element times the elements of result or operand `index`.
std::optional<Dim> ResultElements(const Graph& graph, const Node& node,
                                  size_t index, int64_t per_element);
std::optional<Dim> OperandElements(const Graph& graph, const Node& node,
                                   size_t index, int64_t per_element);

// Moves data only.
std::optional<Dim> Zero(const Graph& graph, const Node& node);

// Elementwise ops and normalisations: kPerElement for each element of result 0.
template <int64_t kPerElement>
std::optional<Dim> PerResult(const Graph& graph, const Node& node) {
  return ResultElements(graph, node, 0, kPerElement);
}

// Reductions: kPerElement for each element of operand kIndex.
template <int64_t kPerElement, size_t kIndex = 0>
std::optional<Dim> PerOperand(const Graph& graph, const Node& node) {
  return OperandElements(graph, node, kIndex, kPerElement);
}

// Sum, Max, Min of n operands: n - 1 for each result element. Mean: n.
std::optional<Dim> Variadic(const Graph& graph, const Node& node);
std::optional<Dim> Mean(const Graph& graph, const Node& node);
// LRN: a window of `size` channels for each element.
std::optional<Dim> LocalResponse(const Graph& graph, const Node& node);
// Resize, Upsample, GridSample: 2 for each neighbour that is mixed in.
std::optional<Dim> Interpolation(const Graph& graph, const Node& node);

// Matrix products: 2*M*N*K. MatMul also serves the quantised products whose
// first operand is a plain A.
std::optional<Dim> MatMul(const Graph& graph, const Node& node);
// The first operand counts from its transA and transBatchA.
std::optional<Dim> FusedMatMul(const Graph& graph, const Node& node);
std::optional<Dim> Gemm(const Graph& graph, const Node& node);
std::optional<Dim> FusedGemm(const Graph& graph, const Node& node);
// Attribute K is the inner size: the weights are packed.
std::optional<Dim> MatMulNBits(const Graph& graph, const Node& node);
// A square matrix or a batch of them, 2*n^3 each.
std::optional<Dim> Inverse(const Graph& graph, const Node& node);
// A contraction in one step: the product of the sizes of all labels, times one
// less than the number of operands, and one more if something is summed over.
std::optional<Dim> Einsum(const Graph& graph, const Node& node);
// Each token through `k` experts.
std::optional<Dim> MixtureOfExperts(const Graph& graph, const Node& node);

// Convolutions: 2 * (Cin / group) * kernel for each result element.
std::optional<Dim> Conv(const Graph& graph, const Node& node);
std::optional<Dim> QLinearConv(const Graph& graph, const Node& node);
// With a fused addition of operand 3 and a fused activation.
std::optional<Dim> FusedConv(const Graph& graph, const Node& node);
// 2 * (Cout / group) * kernel for each element of operand 0.
std::optional<Dim> ConvTranspose(const Graph& graph, const Node& node);
std::optional<Dim> CausalConv(const Graph& graph, const Node& node);
// MaxPool, AveragePool, LpPool: the window for each result element.
std::optional<Dim> Pool(const Graph& graph, const Node& node);

// Of LSTM, GRU, RNN: how many steps they run, by the lengths that they are
// given; nullopt where there are none, or none that are known.
std::optional<int64_t> LongestSequence(const Graph& graph, const Node& node);
// LSTM, GRU, RNN: both matrix products and the gates, for each step that is
// run, batch entry and direction.
std::optional<Dim> Lstm(const Graph& graph, const Node& node);
std::optional<Dim> Gru(const Graph& graph, const Node& node);
std::optional<Dim> Rnn(const Graph& graph, const Node& node);

// Attention: both products and the softmax, over the past keys too.
std::optional<Dim> Attention(const Graph& graph, const Node& node);
// com.microsoft: Attention and QAttention project their input first.
std::optional<Dim> ProjectedAttention(const Graph& graph, const Node& node);
std::optional<Dim> QuantizedProjectedAttention(const Graph& graph,
                                               const Node& node);
std::optional<Dim> MultiHeadAttention(const Graph& graph, const Node& node);
std::optional<Dim> GroupQueryAttention(const Graph& graph, const Node& node);

}  // namespace onnx_memopt::ir::flops

#endif  // ONNX_MEMOPT_IR_FLOPS_H_
