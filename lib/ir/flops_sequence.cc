// Flops of recurrent layers, attention and Einsum.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ir/flops_shapes.h"
#include "onnx_memopt/ir/flops.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::ir::flops {
namespace {

// One step of one direction multiplies the input with W and the state with R,
// each weight once, then applies the gates to each hidden unit. W is
// [directions, ...] and R is [directions, ..., hidden], so neither depends on
// how many gates there are.
MaybeDim Recurrent(const Graph& graph, const Node& node,
                   int64_t per_hidden_unit) {
  const Shape* x = OperandShape(graph, node, 0);
  const Shape* w = OperandShape(graph, node, 1);
  const Shape* r = OperandShape(graph, node, 2);
  const int64_t hidden_size = IntAttribute(node, "hidden_size", 0);
  const MaybeDim hidden =
      hidden_size > 0 ? MaybeDim(Dim(hidden_size)) : DimAt(r, -1);
  const MaybeDim one_step =
      Sum({Product({Dim(2), ProductFrom(w, 0)}),
           Product({Dim(2), ProductFrom(r, 0)}),
           Product({Dim(per_hidden_unit), DimAt(w, 0), hidden})});
  // Steps and batch, in either layout.
  MaybeDim steps = DimAt(x, 0);
  const std::optional<int64_t> longest = LongestSequence(graph, node);
  if (longest && IntAttribute(node, "layout", 0) == 0) steps = Dim(*longest);
  return Product({steps, DimAt(x, 1), one_step});
}

// Scores of `rows` query rows against `keys` keys, their softmax, and the sum
// of the values: queries = rows * key width, outputs = rows * value width.
MaybeDim AttentionCore(const MaybeDim& queries, const MaybeDim& outputs,
                       const MaybeDim& rows, const MaybeDim& keys) {
  return Sum({Product({Dim(2), queries, keys}),
              Product({Dim(2), outputs, keys}),
              Product({Dim(kSoftmaxFlops), rows, keys})});
}

// [batch, tokens, heads * width] or [batch, heads, tokens, width] to
// batch * tokens * heads.
MaybeDim QueryRows(const Shape* query, int64_t heads) {
  if (query == nullptr) return std::nullopt;
  if (query->size() == 4) {
    return Product({(*query)[0], (*query)[1], (*query)[2]});
  }
  if (query->size() != 3 || heads < 1) return std::nullopt;
  return Product({(*query)[0], (*query)[1], Dim(heads)});
}

// Keys of the past, zero where there are none.
MaybeDim PastKeys(const Graph& graph, const Node& node, size_t index,
                  int axis) {
  if (!HasOperand(node, index)) return Dim(0);
  return DimAt(OperandShape(graph, node, index), axis);
}

// A com.microsoft op that makes Q, K and V from its input and `weights`.
MaybeDim Projected(const Graph& graph, const Node& node, size_t past) {
  const Shape* input = OperandShape(graph, node, 0);
  const Shape* weights = OperandShape(graph, node, 1);
  const Shape* output = ResultShape(graph, node, 0);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  if (input == nullptr || input->size() != 3 || heads < 1) return std::nullopt;
  const MaybeDim tokens = Product({DimAt(input, 0), DimAt(input, 1)});
  // Q and K are as wide as V unless the attribute says otherwise.
  MaybeDim key_width = DimAt(output, -1);
  const std::vector<int64_t>* sizes = IntsAttribute(node, "qkv_hidden_sizes");
  if (sizes != nullptr && !sizes->empty()) key_width = Dim((*sizes)[0]);
  const MaybeDim rows = Product({tokens, Dim(heads)});
  const MaybeDim keys = Sum({DimAt(input, 1), PastKeys(graph, node, past, 3)});
  return Sum({Product({Dim(2), tokens, DimAt(input, 2), DimAt(weights, 1)}),
              AttentionCore(Product({tokens, key_width}),
                            ProductFrom(output, 0), rows, keys)});
}

// Operand of LSTM, GRU and RNN: how many steps each sequence has.
constexpr size_t kLengths = 4;

constexpr int kNumLabels = 52;

int LabelIndex(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a';
  if (c >= 'A' && c <= 'Z') return 26 + (c - 'A');
  return -1;
}

// The sizes of an Einsum's labels, and of the dimensions under its ellipsis,
// counted from the last one.
struct LabelSizes {
  std::array<MaybeDim, kNumLabels> labels;
  std::vector<Dim> ellipsis;
};

// A dimension of 1 is broadcast, so another size wins.
void Bind(const Dim& size, MaybeDim* bound) {
  if (!*bound || **bound == Dim(1)) *bound = size;
}

// Reads one operand's term, for example "b...ij"; false if it does not fit the
// shape or a dimension is unknown.
bool BindTerm(absl::string_view term, const Shape& shape, LabelSizes* sizes) {
  const size_t dots = term.find("...");
  const bool has_ellipsis = dots != absl::string_view::npos;
  const size_t num_labels = term.size() - (has_ellipsis ? 3 : 0);
  if (shape.size() < num_labels) return false;
  const size_t hidden = shape.size() - num_labels;
  if (hidden > 0 && !has_ellipsis) return false;
  size_t axis = 0;
  for (size_t i = 0; i < term.size();) {
    if (has_ellipsis && i == dots) {
      for (size_t k = 0; k < hidden; ++k, ++axis) {
        const size_t from_end = hidden - 1 - k;
        if (!shape[axis]) return false;
        if (sizes->ellipsis.size() <= from_end) {
          sizes->ellipsis.resize(from_end + 1, Dim(1));
        }
        MaybeDim bound = sizes->ellipsis[from_end];
        Bind(*shape[axis], &bound);
        sizes->ellipsis[from_end] = *bound;
      }
      i += 3;
      continue;
    }
    const int label = LabelIndex(term[i]);
    if (label < 0 || !shape[axis]) return false;
    Bind(*shape[axis], &sizes->labels[static_cast<size_t>(label)]);
    ++axis;
    ++i;
  }
  return true;
}

// Splits the operands' side at its commas, without spaces.
std::vector<std::string> Terms(absl::string_view operands) {
  std::vector<std::string> terms(1);
  for (char c : operands) {
    if (c == ' ') continue;
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back().push_back(c);
    }
  }
  return terms;
}

// True if a label, or what an ellipsis stands for, is summed over: it is not in
// the output. Where no output is written, labels that occur once are kept.
bool SumsOver(absl::string_view equation) {
  const size_t arrow = equation.find("->");
  const absl::string_view inputs = equation.substr(0, arrow);
  if (arrow != absl::string_view::npos) {
    const absl::string_view output = equation.substr(arrow + 2);
    for (char c : inputs) {
      if ((LabelIndex(c) >= 0 || c == '.') &&
          output.find(c) == absl::string_view::npos) {
        return true;
      }
    }
    return false;
  }
  for (char c : inputs) {
    if (LabelIndex(c) >= 0 && inputs.find(c) != inputs.rfind(c)) return true;
  }
  return false;
}

}  // namespace

std::optional<int64_t> LongestSequence(const Graph& graph, const Node& node) {
  if (!HasOperand(node, kLengths)) return std::nullopt;
  const auto& contents = graph.value(node.operands[kLengths]).contents;
  if (contents == nullptr || contents->elements.empty()) return std::nullopt;
  int64_t longest = 0;
  for (const Element& length : contents->elements) {
    if (!length.integer || !length.integer->is_constant()) return std::nullopt;
    longest = std::max(longest, length.integer->constant());
  }
  return longest;
}

// Three sigmoids, two tanh, f*c + i*g, o*tanh(c). Both matrix products of a
// gate go into one sum, which starts with the bias.
MaybeDim Lstm(const Graph& graph, const Node& node) {
  return Recurrent(graph, node,
                   3 * kSigmoidFlops + 2 * kTranscendentalFlops + 4);
}

// Two sigmoids, a tanh, r*h, (1 - z)*n + z*h.
MaybeDim Gru(const Graph& graph, const Node& node) {
  return Recurrent(graph, node, 2 * kSigmoidFlops + kTranscendentalFlops + 5);
}

// A tanh.
MaybeDim Rnn(const Graph& graph, const Node& node) {
  return Recurrent(graph, node, kTranscendentalFlops);
}

MaybeDim Attention(const Graph& graph, const Node& node) {
  const Shape* query = OperandShape(graph, node, 0);
  const Shape* key = OperandShape(graph, node, 1);
  if (key == nullptr || (key->size() != 3 && key->size() != 4)) {
    return std::nullopt;
  }
  const MaybeDim rows = QueryRows(query, IntAttribute(node, "q_num_heads", 0));
  const MaybeDim keys = Sum({DimAt(key, -2), PastKeys(graph, node, 4, 2)});
  return AttentionCore(ProductFrom(query, 0),
                       ProductFrom(ResultShape(graph, node, 0), 0), rows, keys);
}

MaybeDim ProjectedAttention(const Graph& graph, const Node& node) {
  return Projected(graph, node, 4);
}

MaybeDim QuantizedProjectedAttention(const Graph& graph, const Node& node) {
  return Projected(graph, node, 8);
}

MaybeDim MultiHeadAttention(const Graph& graph, const Node& node) {
  const Shape* query = OperandShape(graph, node, 0);
  const Shape* key = OperandShape(graph, node, 1);
  // Five dimensions are packed forms, with Q, K and V in one tensor.
  if (query == nullptr || key == nullptr || query->size() != 3 ||
      (key->size() != 3 && key->size() != 4)) {
    return std::nullopt;
  }
  const MaybeDim rows = QueryRows(query, IntAttribute(node, "num_heads", 0));
  const MaybeDim keys = Sum({DimAt(key, -2), PastKeys(graph, node, 6, 2)});
  return AttentionCore(ProductFrom(query, 0),
                       ProductFrom(ResultShape(graph, node, 0), 0), rows, keys);
}

// Q may hold K and V too, so the result gives its size. The present keys are
// those that are attended to, or the whole buffer where past and present share
// one.
MaybeDim GroupQueryAttention(const Graph& graph, const Node& node) {
  const Shape* output = ResultShape(graph, node, 0);
  const Shape* present = ResultShape(graph, node, 1);
  if (output == nullptr || output->size() != 3) return std::nullopt;
  const MaybeDim rows = QueryRows(output, IntAttribute(node, "num_heads", 0));
  const MaybeDim size = ProductFrom(output, 0);
  return AttentionCore(size, size, rows, DimAt(present, 2));
}

MaybeDim Einsum(const Graph& graph, const Node& node) {
  const std::string equation = StringAttribute(node, "equation", "");
  const absl::string_view text = equation;
  const std::vector<std::string> terms = Terms(text.substr(0, text.find("->")));
  if (terms.size() != node.operands.size()) return std::nullopt;
  LabelSizes sizes;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Shape* shape = OperandShape(graph, node, i);
    if (shape == nullptr || !BindTerm(terms[i], *shape, &sizes)) {
      return std::nullopt;
    }
  }
  // Multiplications, and an addition where there is a sum. None of the two is a
  // transpose or a diagonal.
  const int64_t per_element =
      static_cast<int64_t>(terms.size()) - 1 + (SumsOver(text) ? 1 : 0);
  if (per_element == 0) return Dim(0);
  MaybeDim product = Dim(per_element);
  for (const MaybeDim& size : sizes.labels) {
    if (size) product = Product({product, size});
  }
  for (const Dim& size : sizes.ellipsis) product = Product({product, size});
  return product;
}

}  // namespace onnx_memopt::ir::flops
