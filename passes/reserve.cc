// reserve: lets ONNX Runtime's arena begin with one region that is large enough
// for the run.
//
//     x -> a -> y      empty = SequenceEmpty()
//                      zeros = ConstantOfShape([1, 1, 64] + length of empty)
//                      h     = LSTM(many steps, of which one is run; zeros)
//                      x'    = Reshape(x, shape of x + sum of h)
//                      x' -> a -> y
//
// Why it saves memory: the arena takes regions from the system as they are
// asked for, each twice as large as the last, and gives none back. So its first
// regions are too small for what comes later, and their pages stay resident
// beside the large ones; outputs and the block of the memory pattern fit in
// none. What an LSTM would need for all of its steps is asked for at once and
// hardly written to, so it is no memory, but the arena has a region of that
// size from then on, in which everything else finds its place. The LSTM
// multiplies by zero; that its state comes from a sequence keeps the runtime
// from folding it, and that shapes of inputs depend on it makes it the first to
// run. Cost: one step of an LSTM, tens of microseconds; 1/32 of the region for
// the arena's table. Refuses: inputs that are not tensors of a number type or
// whose rank is unknown, models before opset 11, graphs of more than 20,000
// nodes, and what does not lower the predicted peak of all runs. On providers
// other than the CPU the region is memory: leave the pass out there. Must not
// run after it: passes that change what is live at the peak.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/always_branch.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/rewrite/raise_opset.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::Graph;
using ir::kMainBlock;
using ir::kNoValue;
using ir::NodeId;
using ir::Shape;
using ir::Type;
using ir::ValueId;

// Gates of an LSTM: what it asks for has so many floats for each hidden unit.
constexpr int64_t kGates = 4;
constexpr int64_t kFloatBytes = 4;

Type Floats(std::initializer_list<int64_t> dims) {
  Shape shape;
  for (const int64_t dim : dims) shape.emplace_back(Dim(dim));
  return Type::Tensor(ElementType::kFloat, std::move(shape));
}

// Writes the nodes that ask for a region of `bytes`, and lets all else that
// reads an input wait for them.
class Reservation {
 public:
  Reservation(Graph* graph, int64_t bytes)
      : builder_(graph), graph_(*graph), bytes_(bytes) {}

  void Write(const std::vector<ValueId>& inputs) {
    const ValueId zero = Zero();
    llvm::DenseMap<ValueId, ValueId> waiting;
    for (const ValueId input : inputs) waiting[input] = Wait(input, zero);
    // What the graph returns keeps its name.
    const std::vector<ValueId> outputs = graph_.block(kMainBlock).results;
    std::vector<NodeId> nodes = std::move(nodes_);
    graph_.ReplaceUses(waiting);
    for (const auto& [input, view] : waiting) {
      graph_.mutable_node(graph_.value(view).producer).operands[0] = input;
    }
    ir::Block& main = graph_.mutable_block(kMainBlock);
    main.results = outputs;
    main.nodes.insert(main.nodes.begin(), nodes.begin(), nodes.end());
  }

 private:
  // Units such that the weights take about as much as the inputs.
  int64_t HiddenSize() const {
    int64_t hidden = 32;
    while (2 * hidden * hidden * hidden <= bytes_ / 256) hidden *= 2;
    return hidden;
  }

  ValueId Op(absl::string_view op, const std::vector<ValueId>& operands,
             Type type, absl::string_view base,
             std::vector<ir::Attribute> attributes = {}) {
    const ValueId result = builder_.Op(
        kMainBlock, op, operands, std::move(type), base, std::move(attributes));
    nodes_.push_back(graph_.value(result).producer);
    return result;
  }

  // A weight of zeros that the runtime makes when it loads the model.
  ValueId Zeros(std::initializer_list<int64_t> dims, absl::string_view base) {
    const ValueId shape = builder_.Int64s(
        kMainBlock, absl::StrCat(base, "/shape"), std::vector<int64_t>(dims));
    return Op("ConstantOfShape", {shape}, Floats(dims), base);
  }

  // A scalar 0 that is known when the region is there.
  ValueId Zero() {
    const int64_t hidden = HiddenSize();
    // A region is the next power of two. Later runs ask again, beside the block
    // of the memory pattern, so it is no more than it takes.
    const int64_t steps = bytes_ / 2 / (kGates * hidden * kFloatBytes) + 1;
    const Type integer = Type::Tensor(ElementType::kInt64, Shape{});
    const ValueId empty =
        Op("SequenceEmpty", {}, rewrite::EmptySequenceType(), "reserve/empty");
    const ValueId length =
        Op("SequenceLength", {empty}, integer, "reserve/length");
    const ValueId dims =
        builder_.Int64s(kMainBlock, "reserve/dims", {1, 1, hidden});
    const ValueId state_shape = Op(
        "Add", {dims, length}, Type::Tensor(ElementType::kInt64, Shape{Dim(3)}),
        "reserve/state/shape");
    const ValueId state = Op("ConstantOfShape", {state_shape},
                             Floats({1, 1, hidden}), "reserve/state");
    const ValueId x = Zeros({steps, 1, 1}, "reserve/steps");
    const ValueId w = Zeros({1, kGates * hidden, 1}, "reserve/weights");
    const ValueId r = Zeros({1, kGates * hidden, hidden}, "reserve/recurrence");
    const ValueId one =
        builder_.Tensor(kMainBlock, "reserve/one", ElementType::kInt32, {1},
                        std::string({1, 0, 0, 0}));
    graph_.mutable_value(one).contents = std::make_shared<const ir::Contents>(
        ir::Contents{.dims = {1}, .elements = {ir::Element::Integer(1)}});
    const ValueId last =
        builder_.Value(kMainBlock, Floats({1, 1, hidden}), "reserve/last");
    nodes_.push_back(builder_.Node(
        kMainBlock, "LSTM", {x, w, r, kNoValue, one, state}, {kNoValue, last},
        "reserve/LSTM", {{"hidden_size", hidden}}));
    const ValueId sum = Op("ReduceSum", {last}, Floats({}), "reserve/sum",
                           {{"keepdims", int64_t{0}}});
    return Op("Cast", {sum}, integer, "reserve/zero",
              {{"to", static_cast<int64_t>(ElementType::kInt64)}});
  }

  // A view of an input. Its extents are numbers, or 0 for those of the input.
  ValueId Wait(ValueId input, ValueId zero) {
    const Type type = graph_.value(input).type;
    std::vector<int64_t> dims;
    for (const std::optional<Dim>& dim : *type.shape) {
      dims.push_back(dim && dim->is_constant() ? dim->constant() : 0);
    }
    const std::string name = graph_.value(input).name;
    const auto rank = static_cast<int64_t>(dims.size());
    const ValueId shape =
        Op("Add",
           {builder_.Int64s(kMainBlock, absl::StrCat("reserve/", name, "/dims"),
                            dims),
            zero},
           Type::Tensor(ElementType::kInt64, Shape{Dim(rank)}),
           absl::StrCat("reserve/", name, "/shape"));
    return Op("Reshape", {input, shape}, type, absl::StrCat("reserve/", name));
  }

  rewrite::Builder builder_;
  Graph& graph_;
  const int64_t bytes_;
  std::vector<NodeId> nodes_;
};

class Reserve final : public pass::Pass {
 public:
  absl::string_view name() const override { return "reserve"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    return rewrite::RewriteRaised(
        graph, [&](Graph& raised) { return Rewrite(raised, context); });
  }

 private:
  static constexpr int64_t kMinGainBytes = 512 << 10;
  // Each size of the region is a copy of the graph and a prediction.
  static constexpr size_t kMaxNodes = 20'000;
  // Nodes are added for each.
  static constexpr size_t kMaxInputs = 1'000;

  static absl::StatusOr<bool> Rewrite(Graph& graph,
                                      pass::PassContext& context) {
    if (const absl::Status status = rewrite::CheckCanBuild(graph);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    analysis::AnalysisManager analyses(&graph);
    if (const absl::Status status =
            rewrite::CheckCanSearch(graph, analyses, kMaxNodes);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    const absl::StatusOr<std::vector<ValueId>> inputs = Inputs(graph);
    if (!inputs.ok()) return context.LeaveAsIs(inputs.status());
    ASSIGN_OR_RETURN(const analysis::RuntimePrediction now,
                     rewrite::PredictForRewrite(graph));
    std::optional<Graph> best;
    const int64_t before_bytes =
        std::max(now.peak_first_bytes, now.peak_steady_bytes);
    if (before_bytes <= kMinGainBytes) return false;
    int64_t best_bytes = before_bytes - kMinGainBytes;
    int64_t best_region = 0;
    // From half of what a run needs to twice of it.
    const auto need =
        std::bit_ceil(static_cast<uint64_t>(now.peak_first_bytes));
    for (const uint64_t bytes : {need / 2, need, 2 * need}) {
      const auto region = static_cast<int64_t>(bytes);
      Graph changed = graph.Clone();
      Reservation(&changed, region).Write(*inputs);
      ASSIGN_OR_RETURN(const analysis::RuntimePrediction then,
                       rewrite::PredictForRewrite(changed));
      // The table of the region may be all that the first run takes more.
      const int64_t after_bytes =
          std::max(then.peak_first_bytes, then.peak_steady_bytes);
      if (after_bytes >= best_bytes) continue;
      ASSIGN_OR_RETURN(const double seconds, rewrite::PredictSeconds(changed));
      if (seconds > context.max_seconds()) continue;
      best = std::move(changed);
      best_bytes = after_bytes;
      best_region = region;
    }
    if (!best.has_value() || !rewrite::Pays(before_bytes, best_bytes)) {
      return false;
    }
    graph = *std::move(best);
    context.Remark(absl::StrCat(
        "the arena begins with a region of ", FormatBytes(best_region),
        ", peak of all runs in ONNX Runtime ", FormatBytes(before_bytes),
        " -> ", FormatBytes(best_bytes), " (predicted)"));
    return true;
  }

  // Those that nodes can be made to wait for; kFailedPrecondition if one
  // cannot.
  static absl::StatusOr<std::vector<ValueId>> Inputs(const Graph& graph) {
    std::vector<ValueId> inputs;
    for (const ValueId param : graph.block(kMainBlock).params) {
      const ir::Value& value = graph.value(param);
      if (!rewrite::CanBranchReturn(value.type)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "input \"", Printable(value.name), "\" is ", ToString(value.type)));
      }
      if (!value.type.shape->empty()) inputs.push_back(param);
    }
    if (inputs.size() > kMaxInputs) {
      return absl::FailedPreconditionError(
          absl::StrCat("it is for graphs of up to ", kMaxInputs,
                       " inputs, this one has ", inputs.size()));
    }
    if (inputs.empty()) {
      return absl::FailedPreconditionError("no input has dimensions");
    }
    return inputs;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeReserve(
    pass::PassOptions& /*options*/) {
  return std::make_unique<Reserve>();
}

}  // namespace onnx_memopt::passes
