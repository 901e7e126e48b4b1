#include "onnx_memopt/analysis/sizes.h"

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::analysis {

ir::Bindings AssumedBindings(const ir::Graph& graph) {
  ir::Bindings bindings = graph.assumed;
  for (const std::string& name : graph.symbols) bindings.try_emplace(name, 1);
  return bindings;
}

absl::StatusOr<Sizes> Sizes::Compute(const ir::Graph& graph,
                                     AnalysisManager& /*analyses*/) {
  const ir::Bindings bindings = AssumedBindings(graph);
  Sizes sizes;
  sizes.bytes_.resize(graph.num_values());
  sizes.symbolic_.resize(graph.num_values());
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const ir::Value& value = graph.value(ir::ValueId(static_cast<uint32_t>(i)));
    if (value.weight != ir::kNoWeight) {
      sizes.bytes_[i] = graph.weight(value.weight).size_bytes;
      sizes.symbolic_[i] = ir::Dim(*sizes.bytes_[i]);
      continue;
    }
    sizes.symbolic_[i] = SizeBytes(value.type);
    // Of all sequences, the one whose size is known.
    if (value.producer != ir::kNoNode &&
        graph.node(value.producer).op_type == "SequenceEmpty") {
      sizes.symbolic_[i] = ir::Dim(0);
    }
    if (sizes.symbolic_[i]) {
      sizes.bytes_[i] = sizes.symbolic_[i]->Evaluate(bindings);
    }
  }
  return sizes;
}

void Sizes::Print(const ir::Graph& graph, std::string* out) const {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const ir::ValueId id{static_cast<uint32_t>(i)};
    absl::StrAppend(out, Printable(graph.value(id).name), " : ",
                    ToString(graph.value(id).type), " ",
                    symbolic_[i] ? symbolic_[i]->ToString() : "?", " bytes\n");
  }
}

}  // namespace onnx_memopt::analysis
