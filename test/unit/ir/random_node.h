// All shape rules, and random operands and attributes for them.
#ifndef ONNX_MEMOPT_TEST_UNIT_IR_RANDOM_NODE_H_
#define ONNX_MEMOPT_TEST_UNIT_IR_RANDOM_NODE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::ir::testing {

namespace rules = shape_rules;

struct NamedRule {
  const char* name;
  ShapeRule rule;
  std::vector<const char*> ops;
};

inline const std::vector<NamedRule>& AllRules() {
  static const auto& all = *new std::vector<NamedRule>{
      {"SameAsFirst", rules::SameAsFirst, {"Relu", "Identity"}},
      {"BroadcastFloat", rules::BroadcastFloat, {"PRelu"}},
      {"Arithmetic",
       rules::Arithmetic,
       {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Sum"}},
      {"Comparison",
       rules::Comparison,
       {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And",
        "Or", "Xor"}},
      {"UnaryArithmetic",
       rules::UnaryArithmetic,
       {"Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal",
        "Not"}},
      {"Cast", rules::Cast, {"Cast"}},
      {"CastLike", rules::CastLike, {"CastLike"}},
      {"Where", rules::Where, {"Where"}},
      {"BoolLikeFirst", rules::BoolLikeFirst, {"IsNaN", "Not"}},
      {"Dropout", rules::Dropout, {"Dropout"}},
      {"QuantizeLinear", rules::QuantizeLinear, {"QuantizeLinear"}},
      {"DequantizeLinear", rules::DequantizeLinear, {"DequantizeLinear"}},
      {"DynamicQuantizeLinear",
       rules::DynamicQuantizeLinear,
       {"DynamicQuantizeLinear"}},
      {"RandomLike", rules::RandomLike, {"RandomNormalLike"}},
      {"ShapeOf", rules::ShapeOf, {"Shape"}},
      {"Size", rules::Size, {"Size"}},
      {"Gather", rules::Gather, {"Gather"}},
      {"GatherElements", rules::GatherElements, {"GatherElements"}},
      {"GatherNd", rules::GatherNd, {"GatherND"}},
      {"Concat", rules::Concat, {"Concat"}},
      {"Reshape", rules::Reshape, {"Reshape"}},
      {"Flatten", rules::Flatten, {"Flatten"}},
      {"Squeeze", rules::Squeeze, {"Squeeze"}},
      {"Unsqueeze", rules::Unsqueeze, {"Unsqueeze"}},
      {"Slice", rules::Slice, {"Slice"}},
      {"Split", rules::Split, {"Split"}},
      {"Transpose", rules::Transpose, {"Transpose"}},
      {"Expand", rules::Expand, {"Expand"}},
      {"Tile", rules::Tile, {"Tile"}},
      {"Pad", rules::Pad, {"Pad"}},
      {"ConstantOfShape", rules::ConstantOfShape, {"ConstantOfShape"}},
      {"Range", rules::Range, {"Range"}},
      {"OneHot", rules::OneHot, {"OneHot"}},
      {"EyeLike", rules::EyeLike, {"EyeLike"}},
      {"DepthToSpace", rules::DepthToSpace, {"DepthToSpace"}},
      {"SpaceToDepth", rules::SpaceToDepth, {"SpaceToDepth"}},
      {"Resize", rules::Resize, {"Resize", "Upsample"}},
      {"MatMul", rules::MatMul, {"MatMul"}},
      {"MatMulInteger", rules::MatMulInteger, {"MatMulInteger"}},
      {"QLinearMatMul", rules::QLinearMatMul, {"QLinearMatMul"}},
      {"Gemm", rules::Gemm, {"Gemm"}},
      {"Conv", rules::Conv, {"Conv"}},
      {"ConvInteger", rules::ConvInteger, {"ConvInteger"}},
      {"QLinearConv", rules::QLinearConv, {"QLinearConv"}},
      {"ConvTranspose", rules::ConvTranspose, {"ConvTranspose"}},
      {"Pool", rules::Pool, {"MaxPool", "AveragePool"}},
      {"GlobalPool", rules::GlobalPool, {"GlobalMaxPool"}},
      {"Reduce",
       rules::Reduce,
       {"ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceMean"}},
      {"ArgReduce", rules::ArgReduce, {"ArgMax"}},
      {"TopK", rules::TopK, {"TopK"}},
      {"BatchNormalization", rules::BatchNormalization, {"BatchNormalization"}},
      {"LayerNormalization",
       rules::LayerNormalization,
       {"LayerNormalization", "SimplifiedLayerNormalization"}},
      {"Einsum", rules::Einsum, {"Einsum"}},
      {"Recurrent", rules::Recurrent, {"LSTM", "GRU", "RNN"}},
      {"Attention", rules::Attention, {"Attention"}},
      {"FusedMatMul", rules::FusedMatMul, {"FusedMatMul"}},
      {"SkipLayerNormalization",
       rules::SkipLayerNormalization,
       {"SkipLayerNormalization"}},
      {"NchwcReorderInput", rules::NchwcReorderInput, {"ReorderInput"}},
      {"NchwcReorderOutput", rules::NchwcReorderOutput, {"ReorderOutput"}},
      {"NchwcUpsample", rules::NchwcUpsample, {"Upsample"}},
  };
  return all;
}

class RandomNode {
 public:
  explicit RandomNode(uint32_t seed) : random_(seed) {}

  int64_t Number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  bool Chance(int percent) { return Number(1, 100) <= percent; }

  // Mostly small, now and then absurd.
  int64_t Integer() {
    static constexpr int64_t kExtremes[] = {
        std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::min() + 1,
        std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::max() - 1,
        std::numeric_limits<int32_t>::max(),
        int64_t{1} << 62,
        1000,
        -1000};
    return Chance(15) ? kExtremes[Number(0, 7)] : Number(-3, 5);
  }

  std::optional<Dim> RandomDim() {
    if (Chance(15)) return std::nullopt;
    if (Chance(50)) return Dim(Chance(90) ? Number(0, 6) : Integer());
    Dim dim =
        Dim::Symbol(std::string(1, static_cast<char>('a' + Number(0, 3))));
    const std::optional<Dim> other =
        Chance(50) ? Dim(Number(1, 9)) : Dim::Symbol("z");
    std::optional<Dim> changed;
    switch (Number(0, 6)) {
      case 0:
        changed = Add(dim, *other);
        break;
      case 1:
        changed = Mul(dim, *other);
        break;
      case 2:
        changed = FloorDiv(dim, *other);
        break;
      case 3:
        changed = Sub(dim, *other);
        break;
      default:
        break;
    }
    return changed ? changed : dim;
  }

  size_t Rank() {
    if (Number(1, 400) == 1) return 1024;
    return static_cast<size_t>(Number(0, Chance(5) ? 40 : 5));
  }

  Shape RandomShape() {
    Shape shape(Rank());
    for (std::optional<Dim>& dim : shape) dim = RandomDim();
    return shape;
  }

  ElementType RandomElementType() {
    return Chance(70) ? ElementType::kInt64
                      : static_cast<ElementType>(Number(0, 30));
  }

  Type RandomType() {
    Type type;
    if (Chance(5)) {
      type.kind = static_cast<TypeKind>(Number(0, 6));
      return type;
    }
    if (Chance(5)) return Type::Tensor(RandomElementType(), std::nullopt);
    return Type::Tensor(RandomElementType(), RandomShape());
  }

  Element RandomElement() {
    if (Chance(15)) return {};
    if (Chance(20)) {
      static const double kReals[] = {0.5,
                                      2,
                                      -1,
                                      1e300,
                                      0,
                                      std::numeric_limits<double>::infinity(),
                                      std::numeric_limits<double>::quiet_NaN()};
      return Element::Real(kReals[Number(0, 6)]);
    }
    if (Chance(30)) {
      const std::optional<Dim> dim = RandomDim();
      return dim ? Element::Integer(*dim) : Element{};
    }
    return Element::Integer(Dim(Integer()));
  }

  // Usually consistent with the type, sometimes not even with itself.
  std::shared_ptr<const Contents> RandomContents(Type* type) {
    if (Chance(40)) return nullptr;
    auto contents = std::make_shared<Contents>();
    const auto rank = static_cast<size_t>(Chance(80) ? 1 : Number(0, 3));
    int64_t count = 1;
    for (size_t i = 0; i < rank; ++i) {
      contents->dims.push_back(Chance(3) ? Number(0, 400) : Number(0, 5));
      count *= contents->dims.back();
    }
    if (count > 2000) return nullptr;
    if (Chance(5)) count += Number(0, 3);
    if (Chance(3)) contents->dims.push_back(Integer());
    for (int64_t i = 0; i < count; ++i) {
      contents->elements.push_back(RandomElement());
    }
    if (Chance(90)) {
      Shape shape;
      for (const int64_t dim : contents->dims) shape.push_back(Dim(dim));
      *type = Type::Tensor(RandomElementType(), std::move(shape));
    }
    return contents;
  }

  AttributeValue RandomValue() {
    switch (Number(0, 6)) {
      case 0:
        return Integer();
      case 1:
        return static_cast<float>(Integer()) / 2;
      case 2: {
        static const char* const kTexts[] = {
            "SAME_UPPER", "VALID", "ij,jk->ik", "...i,...i", "bidirectional",
            "not_larger", "->",    ".",         ""};
        return std::string(kTexts[Number(0, 8)]);
      }
      case 3:
        return std::vector<float>(static_cast<size_t>(Number(0, 5)), 0.5F);
      case 4:
        return OpaqueAttribute{};
      default: {
        std::vector<int64_t> list(
            static_cast<size_t>(Chance(2) ? 5000 : Number(0, 6)));
        for (int64_t& value : list) value = Integer();
        return list;
      }
    }
  }

  void AddAttributes(Node* node) {
    static const char* const kNames[] = {"axis",
                                         "axes",
                                         "perm",
                                         "starts",
                                         "ends",
                                         "split",
                                         "num_outputs",
                                         "shape",
                                         "allowzero",
                                         "keepdims",
                                         "pads",
                                         "paddings",
                                         "kernel_shape",
                                         "strides",
                                         "dilations",
                                         "auto_pad",
                                         "group",
                                         "output_shape",
                                         "output_padding",
                                         "ceil_mode",
                                         "blocksize",
                                         "batch_dims",
                                         "to",
                                         "dtype",
                                         "start",
                                         "end",
                                         "equation",
                                         "hidden_size",
                                         "layout",
                                         "direction",
                                         "q_num_heads",
                                         "kv_num_heads",
                                         "k",
                                         "scales",
                                         "value",
                                         "stash_type",
                                         "transA",
                                         "transB",
                                         "output_dtype",
                                         "height_scale",
                                         "fmod",
                                         "noop_with_empty_axes",
                                         "keep_aspect_ratio_policy"};
    const int64_t count = Number(0, 12);
    for (int64_t i = 0; i < count; ++i) {
      const char* name = kNames[Number(0, std::size(kNames) - 1)];
      node->attributes.push_back({name, RandomValue()});
    }
  }

 private:
  std::mt19937 random_;
};

}  // namespace onnx_memopt::ir::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_IR_RANDOM_NODE_H_
