// What kernels take while they run, beside their results: one rule per op,
// found by tracing the allocations of small models, and by the runtime's
// sources for the formula. Ops that are not here take nothing worth counting.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "analysis/ort_facts.h"
#include "analysis/runtime_block.h"
#include "analysis/runtime_fusion.h"
#include "onnx_memopt/analysis/blocked_layout.h"
#include "onnx_memopt/analysis/kernel_scratch.h"
#include "onnx_memopt/ir/flops.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::Node;

// Products of dims that came from a file: saturate instead of overflowing.
int64_t Times(int64_t a, int64_t b) {
  return CheckedMul(std::max<int64_t>(a, 0), std::max<int64_t>(b, 0))
      .value_or(int64_t{1} << 56);
}

int64_t Product(const ConcreteShape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end && i < shape.size(); ++i) {
    product = Times(product, shape[i]);
  }
  return product;
}

bool AllAre(const Node& node, absl::string_view attribute, int64_t value) {
  const std::vector<int64_t>* list = IntsAttribute(node, attribute);
  return list == nullptr || std::all_of(list->begin(), list->end(),
                                        [&](int64_t v) { return v == value; });
}

// True if the window moves by one and nothing is padded.
bool IsDense(const Node& node) {
  const std::string auto_pad = StringAttribute(node, "auto_pad", "NOTSET");
  const bool unpadded =
      auto_pad == "VALID" || (auto_pad == "NOTSET" && AllAre(node, "pads", 0));
  return AllAre(node, "strides", 1) && unpadded;
}

// How many threads a convolution is dealt to; each unfolds pieces of its own.
int64_t ConvThreads(int64_t filters, int64_t outputs, int64_t k,
                    int64_t threads) {
  const double complexity = static_cast<double>(filters) *
                            static_cast<double>(outputs) *
                            static_cast<double>(k);
  const double wanted =
      complexity / static_cast<double>(ort::kGemmThreadComplexity) + 1;
  int64_t count = wanted < static_cast<double>(threads)
                      ? static_cast<int64_t>(wanted)
                      : threads;
  if (count <= 1) return 1;
  int64_t stride = CeilDiv(outputs, count);
  stride = Times(CeilDiv(stride, ort::kGemmThreadAlign), ort::kGemmThreadAlign);
  if (stride >= outputs) return 1;
  if (Times(stride, count - 1) >= outputs) --count;
  return count;
}

void Conv(const RuntimeContext& context, const Node& node, RuntimeStep* step) {
  if (context.options.fusion && !node.results.empty() &&
      IsInBlocks(context, node.results[0])) {
    return;
  }
  const auto x = context.OperandShape(node, 0);
  const auto w = context.OperandShape(node, 1);
  const auto y =
      node.results.empty() ? std::nullopt : context.ShapeOf(node.results[0]);
  if (!x || !w || !y || x->size() < 3 || w->size() != x->size() ||
      y->size() != x->size()) {
    return;
  }
  const int64_t group = std::max<int64_t>(IntAttribute(node, "group", 1), 1);
  const int64_t channels = (*w)[1];
  const int64_t filters = (*w)[0] / group;
  const int64_t outputs = Product(*y, 2, y->size());
  const int64_t k = Times(channels, Product(*w, 2, w->size()));
  // A matrix product on the image as it is.
  if (IsDense(node) && k == channels) return;
  int64_t floats = 0;
  if (filters > outputs) {
    floats = Times(outputs, k);  // the whole image, unfolded
  } else {
    // Several images or groups are dealt to threads one by one.
    const int64_t threads = context.options.threads;
    const int64_t images = Times((*x)[0], group);
    const int64_t used = images > 1 ? std::min(threads, images)
                                    : ConvThreads(filters, outputs, k, threads);
    floats = Times(used, ort::kConvBufferFloats);
  }
  step->scratch_bytes.push_back(Times(floats, sizeof(float)));
}

int64_t ResultBytes(const RuntimeContext& context, const Node& node) {
  if (node.results.empty() || node.results[0] == ir::kNoValue) return 0;
  return context.sizes.bytes(node.results[0]).value_or(0);
}

int64_t OperandBytes(const RuntimeContext& context, const Node& node,
                     size_t operand) {
  if (operand >= node.operands.size() ||
      node.operands[operand] == ir::kNoValue) {
    return 0;
  }
  return context.sizes.bytes(node.operands[operand]).value_or(0);
}

int64_t FloatBytes(int64_t count) { return Times(count, sizeof(float)); }

// One more tensor like the result: what comes in front of the bias or of the
// last factor. (HardSwish and Mish are functions of two and more nodes.)
void LikeResult(const RuntimeContext& context, const Node& node,
                RuntimeStep* step) {
  step->scratch_bytes.push_back(ResultBytes(context, node));
}

// Without a bias it needs none.
void FastGelu(const RuntimeContext& context, const Node& node,
              RuntimeStep* step) {
  if (OperandBytes(context, node, 1) > 0) LikeResult(context, node, step);
}

// Selects from both sides into a tensor each, then merges them.
void TwoLikeResult(const RuntimeContext& context, const Node& node,
                   RuntimeStep* step) {
  step->scratch_bytes.assign(2, ResultBytes(context, node));
  step->scratch_first = true;
}

// Of more than two operands, partial results.
void Variadic(const RuntimeContext& context, const Node& node,
              RuntimeStep* step) {
  if (node.operands.size() < 3) return;
  step->scratch_bytes.assign(node.operands.size() == 3 ? 1 : 2,
                             ResultBytes(context, node));
}

// From opset 13 on the axis is moved to the end, and back.
void Softmax(const RuntimeContext& context, const Node& node,
             RuntimeStep* step) {
  const auto x = context.OperandShape(node, 0);
  if (!x || node.opset < 13) return;
  const auto rank = static_cast<int64_t>(x->size());
  const int64_t axis = IntAttribute(node, "axis", -1);
  if (axis == -1 || axis == rank - 1) return;
  step->scratch_bytes.assign(2, ResultBytes(context, node));
}

// The product of the image and the filters, before it is folded.
void ConvTranspose(const RuntimeContext& context, const Node& node,
                   RuntimeStep* step) {
  const auto x = context.OperandShape(node, 0);
  const auto w = context.OperandShape(node, 1);
  if (!x || !w || x->size() < 3 || w->size() != x->size()) return;
  step->scratch_bytes.push_back(
      FloatBytes(Times(Product(*w, 1, w->size()), Product(*x, 2, x->size()))));
}

// The scale of all images, and the squares of one with a margin of channels.
void Lrn(const RuntimeContext& context, const Node& node, RuntimeStep* step) {
  const auto x = context.OperandShape(node, 0);
  const int64_t size = IntAttribute(node, "size", 1);
  if (!x || x->size() != 4 || size < 1) return;
  const int64_t area = Times((*x)[2], (*x)[3]);
  step->scratch_bytes.push_back(FloatBytes(Product(*x, 0, x->size())));
  step->scratch_bytes.push_back(
      FloatBytes(Times(SaturatingAdd((*x)[1], size - 1), area)));
}

// The products of all inputs with the weights of the gates. LSTM writes those
// of the steps that it runs.
void Recurrent(const RuntimeContext& context, const Node& node,
               RuntimeStep* step) {
  const auto x = context.OperandShape(node, 0);
  const auto w = context.OperandShape(node, 1);
  if (!x || !w || x->size() != 3 || w->size() != 3) return;
  const int64_t one_step = FloatBytes(Times((*x)[1], Times((*w)[0], (*w)[1])));
  int64_t steps = (*x)[0];
  if (node.op_type == "LSTM" && IntAttribute(node, "layout", 0) == 0) {
    steps = std::min(
        steps, ir::flops::LongestSequence(context.graph, node).value_or(steps));
  }
  step->scratch_bytes.push_back(Times(steps, one_step));
  step->untouched_bytes = Times((*x)[0] - steps, one_step);
}

// Operands and result are brought to the form of a batched product and back.
void Einsum(const RuntimeContext& context, const Node& node,
            RuntimeStep* step) {
  if (node.operands.size() < 2) return;
  step->scratch_first = true;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    step->scratch_bytes.push_back(OperandBytes(context, node, i));
  }
  step->scratch_bytes.push_back(ResultBytes(context, node));
}

// The first operand in 8 bits.
void DynamicQuantizeMatMul(const RuntimeContext& context, const Node& node,
                           RuntimeStep* step) {
  const auto x = context.OperandShape(node, 0);
  if (x) step->scratch_bytes.push_back(Product(*x, 0, x->size()));
  step->scratch_first = true;
}

// The scores of all heads.
void Attention(const RuntimeContext& context, const Node& node,
               RuntimeStep* step) {
  const auto q = context.OperandShape(node, 0);
  const auto k = context.OperandShape(node, 1);
  const auto past = context.OperandShape(node, 4);
  if (!q || !k || q->size() != k->size()) return;
  int64_t heads = 0;
  size_t axis = 1;
  if (q->size() == 4) {
    heads = (*q)[1];
    axis = 2;
  } else if (q->size() == 3) {
    heads = IntAttribute(node, "q_num_heads", 0);
  }
  int64_t keys = (*k)[axis];
  if (past && past->size() == 4) keys = SaturatingAdd(keys, (*past)[2]);
  step->scratch_bytes.push_back(
      FloatBytes(Times(Times((*q)[0], heads), Times((*q)[axis], keys))));
}

// com.microsoft Attention projects first: query, key and value of all heads,
// the scores, and the result before its heads are merged.
void ProjectedAttention(const RuntimeContext& context, const Node& node,
                        RuntimeStep* step) {
  const auto x = context.OperandShape(node, 0);
  const auto w = context.OperandShape(node, 1);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  if (!x || !w || x->size() != 3 || w->size() != 2) return;
  const int64_t tokens = Times((*x)[0], (*x)[1]);
  step->scratch_bytes.push_back(FloatBytes(Times(tokens, (*w)[1])));
  step->scratch_bytes.push_back(
      FloatBytes(Times(Times(tokens, heads), (*x)[1])));
  step->scratch_bytes.push_back(ResultBytes(context, node));
}

// Query, key and value by heads, and blocks of scores for each thread.
void MultiHeadAttention(const RuntimeContext& context, const Node& node,
                        RuntimeStep* step) {
  const auto q = context.OperandShape(node, 0);
  const auto k = context.OperandShape(node, 1);
  const int64_t heads = IntAttribute(node, "num_heads", 0);
  if (!q || !k || q->size() != 3 || k->size() != 3 || heads <= 0) return;
  for (size_t i = 0; i < 3; ++i) {
    step->scratch_bytes.push_back(OperandBytes(context, node, i));
  }
  const int64_t head = std::max<int64_t>((*q)[2] / heads, 1);
  const int64_t keys =
      std::min((*k)[1], ort::kFlashCacheBytes / (int64_t{16} * 2 * head));
  const int64_t rows = std::min({(*q)[1], keys, 2 * head});
  step->scratch_bytes.push_back(
      Times(context.options.threads, FloatBytes(Times(rows, 2 + keys + head))));
}

// The positions as 64-bit numbers, in a list of the C library.
void ScatterElements(const RuntimeContext& context, const Node& node,
                     RuntimeStep* step) {
  const auto indices = context.OperandShape(node, 1);
  if (!indices) return;
  step->malloc_bytes =
      Times(Product(*indices, 0, indices->size()), sizeof(int64_t));
}

// Where it puts each slice.
void ScatterNd(const RuntimeContext& context, const Node& node,
               RuntimeStep* step) {
  const auto indices = context.OperandShape(node, 1);
  if (!indices || indices->empty()) return;
  step->malloc_bytes =
      Times(Product(*indices, 0, indices->size() - 1), sizeof(int64_t));
}

void Pool(const RuntimeContext& context, const Node& node, RuntimeStep* step) {
  if (!context.options.folding ||
      !CopiesIntoBlocks(context.graph, node, [&](const Node& convolution) {
        return TakesBlocks(context, convolution);
      })) {
    return;
  }
  step->scratch_bytes.push_back(OperandBytes(context, node, 0));
  step->scratch_first = true;
}

using Rule = void (*)(const RuntimeContext& context, const Node& node,
                      RuntimeStep* step);

struct Row {
  absl::string_view domain;
  absl::string_view op;
  Rule rule;
};

constexpr Row kRows[] = {
    {"", "Attention", Attention},
    {"", "AveragePool", Pool},
    {"", "Conv", Conv},
    {"", "ConvTranspose", ConvTranspose},
    {"", "Einsum", Einsum},
    {"", "GRU", Recurrent},
    {"", "GlobalAveragePool", Pool},
    {"", "GlobalMaxPool", Pool},
    {"", "HardSwish", LikeResult},
    {"", "LRN", Lrn},
    {"", "LSTM", Recurrent},
    {"", "LogSoftmax", Softmax},
    {"", "Max", Variadic},
    {"", "MaxPool", Pool},
    {"", "Mean", Variadic},
    {"", "Min", Variadic},
    {"", "Mish", LikeResult},
    {"", "ScatterElements", ScatterElements},
    {"", "ScatterND", ScatterNd},
    {"", "Softmax", Softmax},
    {"", "Sum", Variadic},
    {"", "Where", TwoLikeResult},
    {"com.microsoft", "Attention", ProjectedAttention},
    {"com.microsoft", "BiasGelu", LikeResult},
    {"com.microsoft", "DynamicQuantizeMatMul", DynamicQuantizeMatMul},
    {"com.microsoft", "FastGelu", FastGelu},
    {"com.microsoft", "FusedConv", Conv},
    {"com.microsoft", "MultiHeadAttention", MultiHeadAttention},
};

}  // namespace

void AddScratch(const RuntimeContext& context, RuntimeStep* step) {
  const Node& node = context.graph.node(step->node);
  const auto row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) {
        return r.op == node.op_type && r.domain == node.domain;
      });
  if (row != std::end(kRows)) row->rule(context, node, step);
}

absl::StatusOr<std::vector<int64_t>> KernelScratch(
    const ir::Graph& graph, AnalysisManager& analyses, ir::BlockId block,
    const RuntimeOptions& options) {
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  const RuntimeContext context{.graph = graph,
                               .analyses = analyses,
                               .sizes = *sizes,
                               .bindings = AssumedBindings(graph),
                               .options = options};
  std::vector<int64_t> all;
  for (const ir::NodeId id : graph.block(block).nodes) {
    RuntimeStep step;
    step.node = id;
    AddScratch(context, &step);
    int64_t total = step.malloc_bytes;
    for (const int64_t bytes : step.scratch_bytes) {
      total = SaturatingAdd(total, bytes);
    }
    all.push_back(total);
  }
  return all;
}

}  // namespace onnx_memopt::analysis
