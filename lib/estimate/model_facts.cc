#include "onnx_memopt/estimate/model_facts.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

using ir::ValueId;

int64_t SaturatingMul(int64_t a, int64_t b) {
  return CheckedMul(a, b).value_or(INT64_MAX);
}

}  // namespace

int64_t Amount::At(int64_t batch) const {
  return SaturatingAdd(fixed, SaturatingMul(per_sample, batch));
}

int64_t BufferFact::Bytes(int64_t batch, int64_t float_bytes) const {
  const int64_t count = elements.At(batch);
  if (bits == 0) return SaturatingMul(count, float_bytes);
  if (bits % 8 == 0) return SaturatingMul(count, bits / 8);
  return CeilDiv(SaturatingMul(count, bits), 8);
}

int64_t ModelFacts::num_parameters() const {
  int64_t count = 0;
  for (const ParameterFact& parameter : parameters) {
    count = SaturatingAdd(count, parameter.elements);
  }
  return count;
}

int64_t ModelFacts::constant_bytes() const {
  int64_t bytes = 0;
  for (const ConstantFact& constant : constants) {
    bytes = SaturatingAdd(bytes, constant.bytes);
  }
  return bytes;
}

std::string FindBatchSymbol(const ir::Graph& graph) {
  for (ValueId input : graph.block(ir::kMainBlock).params) {
    const ir::Type& type = graph.value(input).type;
    if (!type.shape || type.shape->empty() || !(*type.shape)[0]) continue;
    const std::string text = (*type.shape)[0]->ToString();
    if (std::find(graph.symbols.begin(), graph.symbols.end(), text) !=
        graph.symbols.end()) {
      return text;
    }
  }
  return "";
}

}  // namespace onnx_memopt::estimate
