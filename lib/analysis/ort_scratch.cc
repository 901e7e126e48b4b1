// What kernels take while they run, beside their results: one rule per op,
// found by tracing the allocations of small models, and by the runtime's
// sources for the formula. Ops that are not here take nothing worth counting.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/strings/string_view.h"
#include "analysis/ort_facts.h"
#include "analysis/runtime_block.h"
#include "onnx_memopt/support/checked_math.h"

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
  const auto x = context.OperandShape(node, 0);
  const auto w = context.OperandShape(node, 1);
  const auto y = node.results.empty() ? std::nullopt
                                      : context.ShapeOf(node.results[0]);
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
    const int64_t threads = context.options.threads;
    floats = Times(ConvThreads(filters, outputs, k, threads),
                   ort::kConvBufferFloats);
    const int64_t images = Times((*x)[0], group);
    if (images > 1) {
      floats = Times(std::min(threads, images),
                     std::max({Times(outputs, k), Times(filters, outputs),
                               ort::kConvBufferFloats}));
    }
  }
  step->scratch_bytes.push_back(Times(floats, sizeof(float)));
}

// Selects from both sides into a tensor each, then merges them.
void Where(const RuntimeContext& context, const Node& node, RuntimeStep* step) {
  if (node.results.empty() || node.results[0] == ir::kNoValue) return;
  const int64_t bytes = context.sizes.bytes(node.results[0]).value_or(0);
  step->scratch_bytes.push_back(bytes);
  step->scratch_bytes.push_back(bytes);
}

using Rule = void (*)(const RuntimeContext& context, const Node& node,
                      RuntimeStep* step);

struct Row {
  absl::string_view domain;
  absl::string_view op;
  Rule rule;
};

constexpr Row kRows[] = {
    {"", "Conv", Conv},
    {"", "Where", Where},
    {"com.microsoft", "FusedConv", Conv},
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

}  // namespace onnx_memopt::analysis
