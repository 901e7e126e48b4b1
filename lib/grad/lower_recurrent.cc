#include "grad/lower_recurrent.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grad/write_out.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;

// A dozen nodes each.
constexpr int64_t kMaxSteps = 1024;

enum class Kind : uint8_t { kRnn, kGru, kLstm };

enum Operand : uint8_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes
};

std::optional<Kind> KindOf(const ir::Node& node) {
  if (!node.domain.empty() || node.is_call) return std::nullopt;
  if (node.op_type == "LSTM") return Kind::kLstm;
  if (node.op_type == "GRU") return Kind::kGru;
  if (node.op_type == "RNN") return Kind::kRnn;
  return std::nullopt;
}

int64_t Gates(Kind kind) {
  switch (kind) {
    case Kind::kLstm:
      return 4;
    case Kind::kGru:
      return 3;
    case Kind::kRnn:
      break;
  }
  return 1;
}

// One node. States are kNoValue where they are zero, before the first step.
class Unrolled {
 public:
  Unrolled(Kind kind, ir::Node node, Emitter* emitter)
      : kind_(kind),
        node_(std::move(node)),
        e_(*emitter),
        gates_(Gates(kind)),
        hidden_(ir::IntAttribute(node_, "hidden_size", 0)),
        batch_first_(ir::IntAttribute(node_, "layout", 0) != 0) {}

  bool Fits() {
    const ir::Shape* x = Has(kX) ? e_.shape(node_.operands[kX]) : nullptr;
    if (x == nullptr || x->size() != 3 || hidden_ < 1) return false;
    const std::optional<ir::Dim>& steps = (*x)[batch_first_ ? 1 : 0];
    if (!steps || !steps->is_constant()) return false;
    steps_ = steps->constant();
    if (steps_ < 1 || steps_ > kMaxSteps) return false;
    if (Has(kLengths) || Has(kPeepholes)) return false;
    for (const ir::Attribute& attribute : node_.attributes) {
      if (attribute.name == "clip" || attribute.name == "activations" ||
          attribute.name == "activation_alpha" ||
          attribute.name == "activation_beta") {
        return false;
      }
    }
    return ir::IntAttribute(node_, "input_forget", 0) == 0;
  }

  // What stands for each result.
  std::vector<ValueId> Emit() {
    const std::string direction =
        ir::StringAttribute(node_, "direction", "forward");
    const int64_t count = direction == "bidirectional" ? 2 : 1;
    ValueId x = node_.operands[kX];
    if (batch_first_) x = e_.Transpose(x, {1, 0, 2});
    std::vector<ValueId> all;
    std::vector<ValueId> last_h;
    std::vector<ValueId> last_c;
    for (int64_t d = 0; d < count; ++d) {
      const bool backward = direction == "reverse" || d == 1;
      h_ = State(kInitialH, d);
      c_ = kind_ == Kind::kLstm ? State(kInitialC, d) : ir::kNoValue;
      const std::vector<ValueId> states = Run(x, d, backward);
      // [steps, 1, batch, hidden]
      all.push_back(e_.Unsqueeze(e_.Concat(states, 0), {1}));
      last_h.push_back(e_.Unsqueeze(h_, {0}));
      if (c_ != ir::kNoValue) last_c.push_back(e_.Unsqueeze(c_, {0}));
    }
    std::vector<ValueId> results = {e_.Concat(all, 1), e_.Concat(last_h, 0)};
    if (!last_c.empty()) results.push_back(e_.Concat(last_c, 0));
    if (!batch_first_) return results;
    results[0] = e_.Transpose(results[0], {2, 0, 1, 3});
    for (size_t i = 1; i < results.size(); ++i) {
      results[i] = e_.Transpose(results[i], {1, 0, 2});
    }
    return results;
  }

 private:
  bool Has(size_t i) const {
    return i < node_.operands.size() && node_.operands[i] != ir::kNoValue;
  }

  // One direction of an operand, without that axis.
  ValueId Of(size_t operand, int64_t direction, int64_t axis = 0) {
    return e_.Squeeze(
        e_.Slice(node_.operands[operand], {axis}, {direction}, {direction + 1}),
        {axis});
  }
  ValueId State(size_t operand, int64_t direction) {
    if (!Has(operand)) return ir::kNoValue;
    return Of(operand, direction, batch_first_ ? 1 : 0);
  }

  // The states after each step, [1, batch, hidden], by the place in x.
  std::vector<ValueId> Run(ValueId x, int64_t direction, bool backward) {
    // Of all steps at once: what does not depend on the states.
    ValueId given = e_.MatMul(x, e_.SwapLastAxes(Of(kW, direction)));
    recurrent_ = e_.SwapLastAxes(Of(kR, direction));
    bias_ = ir::kNoValue;
    if (Has(kB)) {
      const ValueId biases = Of(kB, direction);
      const int64_t n = gates_ * hidden_;
      given = e_.Add(given, e_.Slice(biases, {0}, {0}, {n}));
      bias_ = e_.Slice(biases, {0}, {n}, {2 * n});
    }
    const std::vector<ValueId> parts = e_.Ops(
        "Split",
        {given, e_.Ints(std::vector<int64_t>(static_cast<size_t>(steps_), 1))},
        static_cast<size_t>(steps_), {Attr("axis", int64_t{0})});
    std::vector<ValueId> states(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t at = backward ? parts.size() - 1 - i : i;
      const ValueId part = e_.Squeeze(parts[at], {0});
      switch (kind_) {
        case Kind::kLstm:
          StepLstm(part);
          break;
        case Kind::kGru:
          StepGru(part);
          break;
        case Kind::kRnn:
          h_ = e_.Op("Tanh", {Sum(part, FromState(h_))});
          break;
      }
      states[at] = e_.Unsqueeze(h_, {0});
    }
    return states;
  }

  // state * R^T + its bias; kNoValue where there is neither.
  ValueId FromState(ValueId state) {
    if (state == ir::kNoValue) return bias_;
    return Sum(e_.MatMul(state, recurrent_), bias_);
  }
  ValueId Sum(ValueId a, ValueId b) {
    if (a == ir::kNoValue) return b;
    return b == ir::kNoValue ? a : e_.Add(a, b);
  }
  std::vector<ValueId> SplitGates(ValueId value) {
    return e_.Ops("Split",
                  {value, e_.Ints(std::vector<int64_t>(
                              static_cast<size_t>(gates_), hidden_))},
                  static_cast<size_t>(gates_), {Attr("axis", int64_t{-1})});
  }
  ValueId Sigmoid(ValueId a) { return e_.Op("Sigmoid", {a}); }
  ValueId Tanh(ValueId a) { return e_.Op("Tanh", {a}); }

  void StepLstm(ValueId part) {
    const std::vector<ValueId> g = SplitGates(Sum(part, FromState(h_)));
    const ValueId added = e_.Mul(Sigmoid(g[0]), Tanh(g[3]));
    c_ = c_ == ir::kNoValue ? added : e_.Add(e_.Mul(Sigmoid(g[2]), c_), added);
    h_ = e_.Mul(Sigmoid(g[1]), Tanh(c_));
  }

  // Gates z, r and h, of which the last reads the state after the reset.
  void StepGru(ValueId part) {
    const std::vector<ValueId> given = SplitGates(part);
    const bool reset_last =
        ir::IntAttribute(node_, "linear_before_reset", 0) != 0;
    std::array<ValueId, 3> state = {ir::kNoValue, ir::kNoValue, ir::kNoValue};
    if (const ValueId all = FromState(h_); all != ir::kNoValue) {
      const std::vector<ValueId> split = SplitGates(all);
      std::copy(split.begin(), split.end(), state.begin());
    }
    const ValueId z = Sigmoid(Sum(given[0], state[0]));
    const ValueId r = Sigmoid(Sum(given[1], state[1]));
    ValueId inner = state[2];
    if (reset_last) {
      if (inner != ir::kNoValue) inner = e_.Mul(r, inner);
    } else if (h_ != ir::kNoValue) {
      const int64_t n = gates_ * hidden_;
      const ValueId weights = e_.Slice(recurrent_, {1}, {n - hidden_}, {n});
      inner = e_.MatMul(e_.Mul(r, h_), weights);
      if (bias_ != ir::kNoValue) {
        inner = e_.Add(inner, e_.Slice(bias_, {0}, {n - hidden_}, {n}));
      }
    }
    const ValueId candidate = Tanh(Sum(given[2], inner));
    const ValueId moved = e_.Mul(e_.RSub(1, z), candidate);
    h_ = h_ == ir::kNoValue ? moved : e_.Add(moved, e_.Mul(z, h_));
  }

  const Kind kind_;
  const ir::Node node_;
  Emitter& e_;
  const int64_t gates_;
  const int64_t hidden_;
  const bool batch_first_;
  int64_t steps_ = 0;
  ValueId recurrent_ = ir::kNoValue;  // [hidden, gates * hidden]
  ValueId bias_ = ir::kNoValue;       // beside it
  ValueId h_ = ir::kNoValue;
  ValueId c_ = ir::kNoValue;
};

}  // namespace

void LowerRecurrent(rewrite::Builder& builder) {
  WriteOut(builder, [](const ir::Node& node, Emitter* e) {
    std::vector<ValueId> made;
    const std::optional<Kind> kind = KindOf(node);
    if (!kind) return made;
    Unrolled unrolled(*kind, node, e);
    if (unrolled.Fits()) made = unrolled.Emit();
    return made;
  });
}

}  // namespace onnx_memopt::grad
