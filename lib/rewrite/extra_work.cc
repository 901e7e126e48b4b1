#include "rewrite/extra_work.h"

#include <cstdint>

namespace onnx_memopt::rewrite {
namespace {

// A byte that is read or written takes as long as so many operations.
constexpr double kFlopsPerByte = 4;

}  // namespace

double ExtraWork(const ir::Graph& graph, const SplitPlan& plan,
                 const RegionWindows& windows, const analysis::Cost& cost,
                 const ir::Bindings& bindings) {
  const int64_t parts = windows.parts().Evaluate(bindings).value_or(1);
  double once = 0;
  double all = 0;
  for (const SplitNode& split : plan.nodes) {
    const analysis::NodeCost& of_node = cost.node(split.node);
    const int axis = split.way.result_axes[0];
    const ir::ValueId result = graph.node(split.node).results[0];
    if (result == ir::kNoValue) continue;
    const double work =
        static_cast<double>(of_node.flops.value_or(0)) +
        kFlopsPerByte * static_cast<double>(of_node.traffic_bytes.value_or(0));
    const int64_t extent =
        (*graph.value(result).type.shape)[axis]->Evaluate(bindings).value_or(0);
    const int64_t size = windows.size(result, axis, windows.level(split.node))
                             .Evaluate(bindings)
                             .value_or(0);
    if (extent <= 0) continue;
    once += work;
    all += work * static_cast<double>(size) * static_cast<double>(parts) /
           static_cast<double>(extent);
  }
  return once > 0 ? all / once - 1 : 0;
}

}  // namespace onnx_memopt::rewrite
