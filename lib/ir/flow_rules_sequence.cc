// Recurrent layers, attention and rotary embeddings: batch entries are
// independent; so are heads and query rows where the operands are laid out for
// it.
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

bool SplitIfThere(const ShapeContext& c, SplitWay& way, size_t i, size_t axis) {
  return !HasOperand(c, i) || SplitOperand(c, way, i, axis);
}

bool IsOnnx(const ShapeContext& c) {
  return c.node.domain.empty() || c.node.domain == "ai.onnx";
}

// Heads of ai.onnx Attention with operands of four dims: several query heads
// may share one of keys and values.
bool SplitHeads(const ShapeContext& c, SplitWay& way) {
  const Shape* k = c.shape(1);
  const OptDim& kv_heads = (*k)[1];
  if (!kv_heads || !SplitOperand(c, way, 0, 1)) return false;
  Dim shared(1);
  if (*kv_heads != way.extent) {
    const OptDim ratio = DivideExact(way.extent, *kv_heads);
    if (!ratio || !ratio->is_constant() || ratio->constant() < 1) return false;
    shared = *ratio;
  }
  for (const size_t i : {1, 2, 4, 5}) {
    if (!HasOperand(c, i)) continue;
    const Shape* shape = c.shape(i);
    if (shape == nullptr || shape->size() != 4 ||
        !SameExtent((*shape)[1], kv_heads)) {
      return false;
    }
    way.operands[i] = {.axis = 1, .den = shared};
  }
  way.grain = shared;
  // Present keys and values have another extent than the query heads.
  if (shared != Dim(1) && (HasResult(c, 1) || HasResult(c, 2))) return false;
  for (size_t i = 1; i < 4; ++i) {
    if (!SplitResult(c, way, i, 1)) return false;
  }
  return true;
}

// Does what a query row sees depend on its number? A window of -1 is none.
bool MasksByPosition(const ShapeContext& c) {
  return IntAttribute(c.node, "is_causal", 0) != 0 ||
         IntAttribute(c.node, "left_window_size", -1) != -1 ||
         IntAttribute(c.node, "right_window_size", -1) != -1;
}

}  // namespace

Ways Attention(const ShapeContext& c) {
  // Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen
  const Shape* q = c.shape(0);
  const Shape* k = c.shape(1);
  const Shape* v = c.shape(2);
  if (!IsOnnx(c) || q == nullptr || k == nullptr || v == nullptr ||
      (q->size() != 3 && q->size() != 4) || k->size() != q->size() ||
      v->size() != q->size()) {
    return {};
  }
  const bool by_head = q->size() == 4;
  const size_t rows_axis = q->size() - 2;
  Ways ways;
  for (size_t axis = 0; axis <= rows_axis; ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way) continue;
    // The axis among [batch, heads, rows, columns] of scores and mask.
    const size_t scores_axis = by_head || axis == 0 ? axis : axis + 1;
    if (HasOperand(c, 3) && !BroadcastOperand(c, *way, 3, 4, scores_axis)) {
      continue;
    }
    bool known = true;
    if (axis == 0) {
      for (const size_t i : {0, 1, 2, 4, 5, 6}) {
        known = known && SplitIfThere(c, *way, i, 0);
      }
      for (size_t i = 1; i < 4; ++i)
        known = known && SplitResult(c, *way, i, 0);
    } else if (axis == rows_axis) {
      known = !MasksByPosition(c) && SplitOperand(c, *way, 0, axis) &&
              !HasResult(c, 1) && !HasResult(c, 2) &&
              SplitResult(c, *way, 3, 2);
    } else {
      known = SplitHeads(c, *way);
    }
    if (known) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways MultiHeadAttention(const ShapeContext& c) {
  // query, key, value, bias, key_padding_mask, attention_bias, past_key,
  // past_value, past_sequence_length, cache_indirection
  const Shape* query = c.shape(0);
  if (query == nullptr || query->empty() || !(*query)[0] || HasOperand(c, 8) ||
      HasOperand(c, 9)) {
    return {};
  }
  SplitWay way = NewWay(c, *(*query)[0]);
  for (const size_t i : {0, 1, 2, 6, 7}) {
    if (!SplitIfThere(c, way, i, 0)) return {};
  }
  // A mask of one dim may be several lists, one after the other.
  const Shape* mask = c.shape(4);
  if (HasOperand(c, 4) &&
      (mask == nullptr || mask->size() < 2 || !SplitOperand(c, way, 4, 0))) {
    return {};
  }
  if (HasOperand(c, 5) && !BroadcastOperand(c, way, 5, 4, 0)) return {};
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    if (HasResult(c, i)) way.result_axes[i] = 0;
  }
  return {std::move(way)};
}

Ways GroupQueryAttention(const ShapeContext& c) {
  // query, key, value, past_key, past_value, seqlens_k, total_sequence_length,
  // cos_cache, sin_cache, position_ids, attention_bias, head_sink
  const Shape* query = c.shape(0);
  if (query == nullptr || query->empty() || !(*query)[0] ||
      c.operand_types.size() > 12) {
    return {};
  }
  SplitWay way = NewWay(c, *(*query)[0]);
  for (const size_t i : {0, 1, 2, 3, 4, 5, 9}) {
    if (!SplitIfThere(c, way, i, 0)) return {};
  }
  if (HasOperand(c, 10) && !BroadcastOperand(c, way, 10, 4, 0)) return {};
  for (size_t i = 0; i < c.node.results.size(); ++i) {
    if (HasResult(c, i)) way.result_axes[i] = 0;
  }
  return {std::move(way)};
}

Ways RotaryEmbedding(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr || (x->size() != 3 && x->size() != 4) ||
      IntAttribute(c.node, "is_packed_batching", 0) != 0) {
    return {};
  }
  // ai.onnx: x, cos_cache, sin_cache, position_ids
  // com.microsoft: x, position_ids, cos_cache, sin_cache
  const bool onnx = IsOnnx(c);
  const size_t positions = onnx ? 3 : 1;
  const size_t caches[] = {onnx ? size_t{1} : 2, onnx ? size_t{2} : 3};
  const size_t rows_axis = x->size() - 2;
  Ways ways;
  for (SplitWay& way :
       SameAxes(c, [&](size_t axis) { return axis <= rows_axis; })) {
    const auto axis = static_cast<size_t>(way.result_axes[0]);
    // Heads, if their number is not an attribute.
    bool known = axis == 0 || axis == rows_axis ||
                 IntAttribute(c.node, "num_heads", 0) == 0;
    if (axis == 0 || axis == rows_axis) {
      // The axis among [batch, rows] of positions and caches.
      const size_t own = axis == 0 ? 0 : 1;
      bool is_placed = axis == 0;  // does a row know its position?
      if (HasOperand(c, positions)) {
        const Shape* shape = c.shape(positions);
        if (shape == nullptr) continue;
        if (shape->size() == 2) {
          known = SplitOperand(c, way, positions, own);
          is_placed = true;
        }
      }
      for (const size_t i : caches) {
        const Shape* shape = c.shape(i);
        if (shape == nullptr) {
          known = false;
        } else if (shape->size() == 3) {
          known = known && SplitOperand(c, way, i, own);
          is_placed = true;
        }
      }
      known = known && is_placed;
    }
    if (known) ways.push_back(std::move(way));
  }
  return ways;
}

Ways Recurrent(const ShapeContext& c) {
  // X, W, R, B, sequence_lens, initial_h, initial_c, P
  const Shape* x = c.shape(0);
  if (x == nullptr || x->size() != 3) return {};
  const bool batch_first = IntAttribute(c.node, "layout", 0) != 0;
  const size_t sequence_axis = batch_first ? 0 : 1;
  const OptDim& batch = (*x)[sequence_axis];
  if (!batch) return {};
  SplitWay way = NewWay(c, *batch);
  // States are [directions, batch, size], or [batch, directions, size].
  const size_t state_axis = batch_first ? 0 : 1;
  if (!SplitOperand(c, way, 0, sequence_axis) || !SplitIfThere(c, way, 4, 0) ||
      !SplitIfThere(c, way, 5, state_axis) ||
      !SplitIfThere(c, way, 6, state_axis)) {
    return {};
  }
  // Y is [sequence, directions, batch, size] or [batch, sequence, ...].
  if (!SplitResult(c, way, 0, batch_first ? 0 : 2) ||
      !SplitResult(c, way, 1, state_axis) ||
      !SplitResult(c, way, 2, state_axis)) {
    return {};
  }
  return {std::move(way)};
}

}  // namespace onnx_memopt::ir::flow_rules
