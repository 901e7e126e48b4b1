#include "grad/lower_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "grad/write_out.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::kNoValue;
using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;

// Operands of a node.
constexpr size_t kQuery = 0;
constexpr size_t kKey = 1;
constexpr size_t kValue = 2;
constexpr size_t kMask = 3;

class WrittenOut {
 public:
  WrittenOut(ir::Node node, Emitter* emitter)
      : node_(std::move(node)), e_(*emitter) {}

  bool Fits() {
    for (size_t i = kMask + 1; i < node_.operands.size(); ++i) {
      if (node_.operands[i] != kNoValue) return false;
    }
    for (size_t i = 1; i < node_.results.size(); ++i) {
      if (node_.results[i] != kNoValue) return false;
    }
    // Others, of later versions too, are windows, caps and precisions.
    constexpr absl::string_view kKnown[] = {"is_causal", "kv_num_heads",
                                            "q_num_heads", "scale"};
    for (const ir::Attribute& attribute : node_.attributes) {
      if (std::find(std::begin(kKnown), std::end(kKnown), attribute.name) ==
          std::end(kKnown)) {
        return false;
      }
    }
    const ir::Shape* query = e_.shape(node_.operands[kQuery]);
    const ir::Shape* key = e_.shape(node_.operands[kKey]);
    const ir::Shape* value = e_.shape(node_.operands[kValue]);
    if (query == nullptr || key == nullptr || value == nullptr ||
        key->size() != query->size() || value->size() != query->size()) {
      return false;
    }
    is_flat_ = query->size() == 3;
    if (!is_flat_ && query->size() != 4) return false;
    heads_ = Heads(*query, "q_num_heads");
    groups_ = Heads(*key, "kv_num_heads");
    if (heads_ < 1 || groups_ < 1 || heads_ % groups_ != 0) return false;
    head_size_ = HeadSize(*query, heads_);
    value_size_ = HeadSize(*value, groups_);
    return head_size_ > 0 && value_size_ > 0 &&
           HeadSize(*key, groups_) == head_size_;
  }

  ValueId Emit() {
    const ValueId query = ByHeads(kQuery, heads_, head_size_);
    const ValueId key =
        Repeated(ByHeads(kKey, groups_, head_size_), head_size_);
    const ValueId value =
        Repeated(ByHeads(kValue, groups_, value_size_), value_size_);
    const double scale = ir::FloatAttribute(
        node_, "scale",
        static_cast<float>(1 / std::sqrt(static_cast<double>(head_size_))));
    ValueId scores = e_.Mul(e_.MatMul(query, e_.SwapLastAxes(key)), scale);
    if (ir::IntAttribute(node_, "is_causal", 0) != 0) {
      scores = Masked(scores, Triangle(scores));
    }
    if (kMask < node_.operands.size() && node_.operands[kMask] != kNoValue) {
      const ValueId mask = node_.operands[kMask];
      scores = e_.element(mask) == ir::ElementType::kBool
                   ? Masked(scores, mask)
                   : e_.Add(scores, mask);
    }
    ValueId result = e_.MatMul(
        e_.Op("Softmax", {scores}, {Attr("axis", int64_t{-1})}), value);
    if (is_flat_) {
      result = e_.Transpose(result, {0, 2, 1, 3});
      result =
          e_.Reshape(result, std::vector<int64_t>{0, 0, heads_ * value_size_});
    }
    return result;
  }

 private:
  static int64_t Constant(const std::optional<ir::Dim>& dim) {
    return dim && dim->is_constant() ? dim->constant() : 0;
  }
  int64_t Heads(const ir::Shape& shape, absl::string_view attribute) const {
    return is_flat_ ? ir::IntAttribute(node_, attribute, 0)
                    : Constant(shape[1]);
  }
  int64_t HeadSize(const ir::Shape& shape, int64_t heads) const {
    return is_flat_ ? Constant(shape[2]) / heads : Constant(shape[3]);
  }

  // [batch, heads, tokens, size]
  ValueId ByHeads(size_t operand, int64_t heads, int64_t size) {
    const ValueId value = node_.operands[operand];
    if (!is_flat_) return value;
    return e_.Transpose(
        e_.Reshape(value, std::vector<int64_t>{0, 0, heads, size}),
        {0, 2, 1, 3});
  }

  // Several heads of the query read the same keys.
  ValueId Repeated(ValueId value, int64_t size) {
    if (heads_ == groups_) return value;
    const ValueId more =
        e_.Expand(e_.Unsqueeze(value, {2}),
                  e_.Ints(std::vector<int64_t>{1, 1, heads_ / groups_, 1, 1}));
    return e_.Reshape(more, std::vector<int64_t>{0, heads_, -1, size});
  }

  ValueId Masked(ValueId scores, ValueId mask) {
    return e_.Where(
        mask, scores,
        e_.RealLike(-std::numeric_limits<double>::infinity(), scores));
  }

  // True on and below the diagonal.
  ValueId Triangle(ValueId scores) {
    const ValueId shape = e_.Slice(e_.ShapeOf(scores), {0}, {2}, {4});
    const ValueId yes = e_.builder().Tensor(e_.block(), "memopt/true",
                                            ir::ElementType::kBool, {}, {'\1'});
    return e_.Op("Trilu", {e_.Expand(yes, shape)}, {Attr("upper", int64_t{0})});
  }

  const ir::Node node_;
  Emitter& e_;
  bool is_flat_ = false;  // heads are part of the last axis
  int64_t heads_ = 0;
  int64_t groups_ = 0;  // heads of keys and values
  int64_t head_size_ = 0;
  int64_t value_size_ = 0;
};

}  // namespace

void LowerAttention(rewrite::Builder& builder) {
  WriteOut(builder, [](const ir::Node& node, Emitter* e) {
    std::vector<ValueId> made;
    if (node.op_type != "Attention" || !node.domain.empty() || node.is_call) {
      return made;
    }
    WrittenOut written(node, e);
    if (written.Fits()) made.push_back(written.Emit());
    return made;
  });
}

}  // namespace onnx_memopt::grad
