#include "grad/lower_dropout.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grad/write_out.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::NodeId;
using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;

// Arithmetic modulo a prime, so that no product overflows: in int64 for rows
// and columns, in int32 for elements, where a product of two of them and one
// more still fits.
constexpr int64_t kPrime = 2147483647;  // 2^31 - 1
constexpr int64_t kSmallPrime = 46337;

// Known to be true before the run.
bool IsTrue(const ir::Graph& graph, ValueId value) {
  const ir::Contents* contents = graph.value(value).contents.get();
  return ir::OnlyInteger(contents).value_or(0) != 0;
}

bool Draws(const ir::Graph& graph, const ir::Node& node) {
  return node.op_type == "Dropout" && node.domain.empty() && !node.is_call &&
         node.operands.size() > 2 && node.operands[2] != ir::kNoValue &&
         IsTrue(graph, node.operands[2]) &&
         graph.value(node.operands[0]).type.shape.has_value();
}

// The mask of one node.
//
//   row i:     (r, d) = hash(key, i)        [rows, 1]
//   column j:  (c, e) = hash(key', j)       [1, columns]
//   element:   y = r * c + d,  z = y * y + e   modulo kSmallPrime
//   kept where z >= ratio * kSmallPrime
//
// so that what is computed for each element is little, and no 64-bit tensor has
// as many elements as the activation.
class Mask {
 public:
  Mask(const DropoutSeed& seed, int64_t place, Emitter* emitter)
      : e_(*emitter) {
    // Different for each step, micro-batch and node.
    key_ = Mod(e_.Add(Times(Mod(seed.seed), 48271),
                      Times(Mod(seed.step), 1103515245)));
    key_ = Mix(key_, 40692 + place * 7919);
    if (seed.micro_batch != ir::kNoValue) {
      key_ = Mod(e_.Add(key_, Times(seed.micro_batch, 69621)));
    }
    key_ = Mix(key_, 16807);
  }

  // bool, of the shape of `like`, whose rank is known.
  ValueId Make(ValueId like, ValueId ratio) {
    const size_t rank = e_.shape(like)->size();
    const ValueId dims = rank == 0 ? e_.Ints({1}) : e_.ShapeOf(like);
    const auto last = static_cast<int64_t>(std::max<size_t>(rank, 1)) - 1;
    const ValueId columns = e_.Slice(dims, {0}, {last}, {last + 1});
    ValueId row_dims = e_.Ints({1});
    if (last > 0) {
      row_dims = e_.Concat({e_.Slice(dims, {0}, {0}, {last}), e_.Ints({1})}, 0);
    }
    const Pair row = Hash(row_dims, 3);
    const Pair column = Hash(columns, 5);
    const ValueId small = Constant32(kSmallPrime);
    const ValueId y = e_.Op(
        "Mod", {e_.Add(e_.Mul(row.first, column.first), row.second), small});
    const ValueId z =
        e_.Op("Mod", {e_.Add(e_.Square(y), column.second), small});
    const ValueId bound = e_.Cast(e_.Mul(e_.Cast(ratio, ElementType::kFloat),
                                         static_cast<double>(kSmallPrime)),
                                  ElementType::kInt32);
    const ValueId mask = e_.Op("GreaterOrEqual", {z, bound});
    if (rank == 0) return e_.Squeeze(mask, {0});
    ir::Type type = ir::Type::Tensor(ElementType::kBool, *e_.shape(like));
    e_.graph().mutable_value(mask).type = std::move(type);
    return mask;
  }

 private:
  struct Pair {
    ValueId first;
    ValueId second;
  };

  ValueId Mod(ValueId a) { return e_.Op("Mod", {a, e_.Int(kPrime)}); }
  ValueId Times(ValueId a, int64_t factor) { return e_.Mul(a, e_.Int(factor)); }
  ValueId Constant32(int64_t value) {
    return e_.Cast(e_.Int(value), ElementType::kInt32);
  }

  // x^5 + salt; the power is a permutation modulo kPrime.
  ValueId Mix(ValueId x, int64_t salt) {
    const ValueId square = Mod(e_.Square(x));
    const ValueId fourth = Mod(e_.Square(square));
    return Mod(e_.Add(e_.Mul(fourth, x), e_.Int(salt % kPrime)));
  }

  // Of the elements of a list; nullopt where one is unknown.
  std::optional<ir::Dim> Product(ValueId list) const {
    const auto& contents = e_.graph().value(list).contents;
    if (contents == nullptr) return std::nullopt;
    std::optional<ir::Dim> product = ir::Dim(1);
    for (const ir::Element& element : contents->elements) {
      if (!product || !element.integer) return std::nullopt;
      product = ir::Mul(*product, *element.integer);
    }
    return product;
  }

  // Two numbers below kSmallPrime for each index of a tensor of these dims.
  Pair Hash(ValueId dims, int64_t salt) {
    const std::optional<ir::Dim> known = Product(dims);
    const ValueId count =
        known && known->is_constant()
            ? e_.Int(known->constant())
            : e_.Op("ReduceProd", {dims}, {Attr("keepdims", int64_t{0})});
    const ValueId index = e_.Op("Range", {e_.Int(0), count, e_.Int(1)});
    e_.graph().mutable_value(index).type =
        ir::Type::Tensor(ElementType::kInt64, ir::Shape{known});
    const ValueId key = Mix(key_, salt);
    ValueId mixed = Mod(e_.Add(Times(Mod(index), 1664525), key));
    mixed = Mix(Mix(mixed, salt), salt + 1);
    const auto small = [&](ValueId value) {
      const ValueId rest = e_.Op("Mod", {value, e_.Int(kSmallPrime)});
      return e_.Reshape(e_.Cast(rest, ElementType::kInt32), dims);
    };
    const ValueId high = e_.Div(mixed, e_.Int(kSmallPrime));
    return {small(mixed), small(high)};
  }

  Emitter& e_;
  ValueId key_ = ir::kNoValue;
};

}  // namespace

bool HasTrainingDropout(const ir::Graph& graph) {
  const auto& nodes = graph.block(ir::kMainBlock).nodes;
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId id) { return Draws(graph, graph.node(id)); });
}

void LowerDropout(const DropoutSeed& seed, rewrite::Builder& builder) {
  int64_t place = 0;
  WriteOut(builder, [&](const ir::Node& node, Emitter* e) {
    std::vector<ValueId> made;
    if (!Draws(builder.graph(), node)) return made;
    const ValueId x = node.operands[0];
    const ValueId ratio = node.operands[1] == ir::kNoValue
                              ? e->Real(0.5, ElementType::kFloat)
                              : node.operands[1];
    const ValueId mask = Mask(seed, place++, e).Make(x, ratio);
    made = {ir::kNoValue, mask};
    if (node.results[0] != ir::kNoValue) {
      const ValueId kept =
          e->Op("Max", {e->RSub(1, e->Cast(ratio, ElementType::kFloat)),
                        e->Real(1e-6, ElementType::kFloat)});
      const ValueId scale = e->Cast(e->Op("Reciprocal", {kept}), e->element(x));
      made[0] = e->Keep(mask, e->Mul(x, scale));
    }
    return made;
  });
}

}  // namespace onnx_memopt::grad
