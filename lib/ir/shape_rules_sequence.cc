// Recurrent layers, attention, and sequences of tensors.
#include <memory>
#include <string>
#include <utility>

#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {

bool Recurrent(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  const Shape* x = c.shape(0);
  const Shape* recurrence = c.shape(2);
  const bool batch_first = IntAttribute(c.node, "layout", 0) != 0;
  const std::string direction = StringAttribute(c.node, "direction", "forward");
  const Dim directions(direction == "bidirectional" ? 2 : 1);
  OptDim length;
  OptDim batch;
  if (x != nullptr && x->size() == 3) {
    length = (*x)[batch_first ? 1 : 0];
    batch = (*x)[batch_first ? 0 : 1];
  }
  OptDim hidden;
  if (HasAttribute(c.node, "hidden_size")) {
    const int64_t size = IntAttribute(c.node, "hidden_size", -1);
    if (size > 0) hidden = Dim(size);
  } else if (recurrence != nullptr && recurrence->size() == 3) {
    hidden = (*recurrence)[2];
  }
  Shape y;
  Shape state;
  if (batch_first) {
    y = {batch, length, directions, hidden};
    state = {batch, directions, hidden};
  } else {
    y = {length, directions, batch, hidden};
    state = {directions, batch, hidden};
  }
  SetResult(c, 0, type, std::move(y));
  SetResult(c, 1, type, state);
  // The cell state; only an LSTM has one.
  if (c.node.op_type == "LSTM") SetResult(c, 2, type, std::move(state));
  return Complete(c);
}

namespace {

// A query, key or value as [batch, heads, sequence, head size], whichever of
// the two layouts it is in.
struct Heads {
  OptDim batch;
  OptDim heads;
  OptDim sequence;
  OptDim size;
};

std::optional<Heads> SplitHeads(const Shape* shape, int64_t heads) {
  if (shape == nullptr) return std::nullopt;
  if (shape->size() == 4) {
    return Heads{(*shape)[0], (*shape)[1], (*shape)[2], (*shape)[3]};
  }
  if (shape->size() != 3 || heads < 1) return std::nullopt;
  const OptDim& hidden = (*shape)[2];
  return Heads{(*shape)[0], Dim(heads), (*shape)[1],
               hidden ? DivideExact(*hidden, Dim(heads)) : std::nullopt};
}

// Past and new keys (values) one after the other.
std::optional<Shape> Present(const ShapeContext& c, size_t past,
                             const std::optional<Heads>& added) {
  if (!added) return std::nullopt;
  OptDim total = added->sequence;
  if (HasOperand(c, past)) {
    const Shape* shape = c.shape(past);
    const bool known = shape != nullptr && shape->size() == 4;
    total = known ? Plus((*shape)[2], total) : std::nullopt;
  }
  return Shape{added->batch, added->heads, total, added->size};
}

}  // namespace

bool Attention(ShapeContext& c) {
  // com.microsoft has an op of this name with other operands.
  if (!c.node.domain.empty() && c.node.domain != "ai.onnx") return false;
  // Q, K, V, attn_mask, past_key, past_value
  const Shape* query = c.shape(0);
  const int64_t kv_heads = IntAttribute(c.node, "kv_num_heads", 0);
  const auto q = SplitHeads(query, IntAttribute(c.node, "q_num_heads", 0));
  const auto k = SplitHeads(c.shape(1), kv_heads);
  const auto v = SplitHeads(c.shape(2), kv_heads);
  const std::optional<Shape> present_key = Present(c, 4, k);
  const std::optional<Shape> present_value = Present(c, 5, v);
  std::optional<Shape> y;
  std::optional<Shape> scores;
  if (q) {
    const OptDim value_size = v ? v->size : std::nullopt;
    if (query->size() == 4) {
      y = Shape{q->batch, q->heads, q->sequence, value_size};
    } else {
      y = Shape{q->batch, q->sequence, Times(q->heads, value_size)};
    }
    scores = Shape{q->batch, q->heads, q->sequence,
                   present_key ? (*present_key)[2] : std::nullopt};
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(y));
  SetResult(c, 1, ElementOf(c, 1), present_key);
  SetResult(c, 2, ElementOf(c, 2), present_value);
  SetResult(c, 3, ElementOf(c, 0), std::move(scores));
  return Complete(c);
}

bool SequenceEmpty(ShapeContext& c) {
  if (!c.result_contents.empty()) {
    c.result_contents[0] = std::make_shared<const Contents>(Contents{{0}, {}});
  }
  return false;
}

bool SequenceLength(ShapeContext& c) {
  SetResult(c, 0, ElementType::kInt64, Shape{});
  const Contents* sequence = ContentsOf(c, 0);
  if (sequence != nullptr && sequence->elements.empty()) {
    SetContents(c, 0, Contents{{}, {Element::Integer(Dim(0))}});
  }
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
