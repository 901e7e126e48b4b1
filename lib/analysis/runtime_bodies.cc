// The bodies of If, Loop and Scan, as the runtime model sees them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "analysis/runtime_block.h"
#include "analysis/runtime_trace.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::Node;

// An axis counted from either end; nullopt out of range.
std::optional<size_t> Axis(int64_t axis, size_t rank) {
  const auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + n : axis);
}

int64_t ListedAxis(const Node& node, absl::string_view name, size_t i) {
  const std::vector<int64_t>* axes = IntsAttribute(node, name);
  return axes != nullptr && i < axes->size() ? (*axes)[i] : 0;
}

void DescribeScan(const RuntimeContext& context, const Node& node,
                  RuntimeBodies* scan) {
  const int64_t scanned = IntAttribute(node, "num_scan_inputs", 0);
  const auto operands = static_cast<int64_t>(node.operands.size());
  if (scanned < 0 || scanned > operands) return;
  scan->num_carried = static_cast<int32_t>(operands - scanned);
  const auto first = static_cast<size_t>(scan->num_carried);
  for (size_t i = first; i < node.operands.size(); ++i) {
    const std::optional<ConcreteShape> shape = context.OperandShape(node, i);
    const int64_t listed = ListedAxis(node, "scan_input_axes", i - first);
    if (!shape) continue;
    const std::optional<size_t> axis = Axis(listed, shape->size());
    if (!axis) continue;
    scan->trip_count = std::max<int64_t>((*shape)[*axis], 0);
    if (*axis == 0) continue;
    scan->input_copies_bytes.push_back(
        context.sizes.bytes(node.operands[i]).value_or(0));
  }
  for (size_t i = first; i < node.results.size(); ++i) {
    scan->output_is_copied.push_back(
        ListedAxis(node, "scan_output_axes", i - first) != 0);
  }
}

// From the count operand where it is known, or the size of what it stacks.
void DescribeLoop(const RuntimeContext& context, const Node& node,
                  RuntimeBodies* loop) {
  const size_t carried =
      node.operands.size() < 2 ? 0 : node.operands.size() - 2;
  loop->num_carried = static_cast<int32_t>(carried);
  if (node.results.size() > carried) {
    const std::optional<ConcreteShape> shape =
        context.ShapeOf(node.results.back());
    if (shape && !shape->empty()) {
      loop->trip_count = std::max<int64_t>(shape->front(), 0);
      return;
    }
  }
  if (node.operands.empty() || node.operands[0] == ir::kNoValue) return;
  const ir::Contents* count =
      context.graph.value(node.operands[0]).contents.get();
  if (count == nullptr || count->elements.size() != 1) return;
  const std::optional<ir::Dim>& trips = count->elements[0].integer;
  if (!trips) return;
  const std::optional<int64_t> number = trips->Evaluate(context.bindings);
  if (number) loop->trip_count = std::max<int64_t>(*number, 0);
}

}  // namespace

absl::Status AddBodies(const RuntimeContext& context, RuntimeBlock* block,
                       size_t index) {
  RuntimeStep& step = block->steps[index];
  const Node& node = context.graph.node(step.node);
  auto bodies = std::make_shared<RuntimeBodies>();
  for (ir::BlockId body : node.blocks) {
    ASSIGN_OR_RETURN(RuntimeBlock built, BuildRuntimeBlockIn(context, body));
    block->unknown.insert(block->unknown.end(), built.unknown.begin(),
                          built.unknown.end());
    bodies->blocks.push_back(std::move(built));
  }
  if (node.op_type == "Scan") {
    bodies->kind = RuntimeBodies::Kind::kScan;
    DescribeScan(context, node, bodies.get());
  } else if (node.op_type == "Loop") {
    bodies->kind = RuntimeBodies::Kind::kLoop;
    DescribeLoop(context, node, bodies.get());
  }
  step.bodies = bodies;
  const RuntimeOptions bare = Bare(context.options);
  std::vector<FramePlan> plans;
  for (const RuntimeBlock& body : bodies->blocks) {
    plans.push_back(PlanFrame(body, bare));
  }
  step.nested_peak_bytes = LivePeak(TraceStep(*block, index, plans));
  return absl::OkStatus();
}

}  // namespace onnx_memopt::analysis
