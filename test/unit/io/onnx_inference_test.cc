// ONNX's inference functions on nodes that its checker never saw: whatever a
// broken model holds, we must come back from them.

// GCC 12 sees overlaps that are none in std::string (its bug 105651).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wrestrict"
#endif

#include "io/onnx_inference.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "onnx/defs/schema.h"

namespace onnx_memopt::io {
namespace {

using ir::Contents;
using ir::Dim;
using ir::Element;
using ir::ElementType;
using ir::Type;

class RandomRequest {
 public:
  explicit RandomRequest(uint32_t seed) : random_(seed) {}

  OnnxInferenceRequest Make(const onnx::OpSchema& schema) {
    types_.clear();
    attributes_.clear();
    OnnxInferenceRequest request;
    request.op_type = schema.Name();
    request.domain = schema.domain();
    request.opset = schema.since_version();
    const int operands = Count(schema.min_input(), schema.max_input());
    for (int i = 0; i < operands; ++i) {
      if (Number(0, 15) == 0) {
        request.operand_types.push_back(nullptr);
        request.operand_contents.push_back(nullptr);
      } else {
        types_.push_back(std::make_unique<Type>(RandomType()));
        request.operand_types.push_back(types_.back().get());
        request.operand_contents.push_back(RandomContents());
      }
      request.operand_data.push_back(nullptr);
    }
    request.num_results =
        static_cast<size_t>(Count(schema.min_output(), schema.max_output()));
    for (const auto& [name, attribute] : schema.attributes()) {
      if (!attribute.required && Number(0, 1) == 0) continue;
      attributes_.push_back(std::make_unique<onnx::AttributeProto>());
      Fill(name, attribute.type, attributes_.back().get());
      request.attributes[name] = attributes_.back().get();
    }
    return request;
  }

 private:
  int Number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }

  int Count(int least, int most) {
    return Number(0, 19) == 0 ? Number(0, 4)
                              : Number(least, std::min(most, least + 3));
  }

  int64_t RandomInteger() {
    static constexpr int64_t kOdd[] = {-1, 0, INT64_MAX, INT64_MIN, -7};
    return Number(0, 5) == 0 ? kOdd[Number(0, 4)] : Number(0, 6);
  }

  Type RandomType() {
    if (Number(0, 19) == 0) {
      Type type;
      type.kind = static_cast<ir::TypeKind>(Number(0, 6));
      if (Number(0, 1) == 0) {
        type.nested = std::make_shared<const Type>(
            Type::Tensor(ElementType::kFloat, ir::Shape()));
      }
      return type;
    }
    static constexpr ElementType kElements[] = {
        ElementType::kFloat, ElementType::kInt64, ElementType::kInt32,
        ElementType::kBool,  ElementType::kUint8, ElementType::kString};
    const ElementType element = kElements[Number(0, 5)];
    if (Number(0, 9) == 0) return Type::Tensor(element, std::nullopt);
    ir::Shape shape;
    for (int rank = Number(0, 5); rank > 0; --rank) {
      switch (Number(0, 5)) {
        case 0:
          shape.emplace_back(std::nullopt);
          break;
        case 1:
          shape.emplace_back(Dim::Symbol("n"));
          break;
        case 2:
          shape.emplace_back(Dim(int64_t{1} << Number(0, 62)));
          break;
        default:
          shape.emplace_back(Dim(Number(0, 6)));
      }
    }
    return Type::Tensor(element, std::move(shape));
  }

  std::shared_ptr<const Contents> RandomContents() {
    if (Number(0, 2) != 0) return nullptr;
    Contents contents;
    const int count = Number(0, 4);
    if (Number(0, 3) != 0) {
      contents.dims.push_back(count);
    } else if (count != 1) {
      return nullptr;
    }
    for (int i = 0; i < count; ++i) {
      contents.elements.push_back(Number(0, 9) == 0
                                      ? Element()
                                      : Element::Integer(Dim(RandomInteger())));
    }
    return std::make_shared<const Contents>(std::move(contents));
  }

  void Fill(const std::string& name, onnx::AttributeProto::AttributeType type,
            onnx::AttributeProto* out) {
    out->set_name(name);
    out->set_type(type);
    static const std::string kTexts[] = {"SAME_UPPER", "\xff,->"};
    const int count = Number(0, 4);
    switch (type) {
      case onnx::AttributeProto::INT:
        out->set_i(RandomInteger());
        break;
      case onnx::AttributeProto::FLOAT:
        out->set_f(static_cast<float>(Number(-3, 3)));
        break;
      case onnx::AttributeProto::STRING:
        out->set_s(kTexts[Number(0, 1)]);
        break;
      case onnx::AttributeProto::INTS:
        for (int i = 0; i < count; ++i) out->add_ints(RandomInteger());
        break;
      case onnx::AttributeProto::FLOATS:
        for (int i = 0; i < count; ++i) out->add_floats(1.5f);
        break;
      case onnx::AttributeProto::STRINGS:
        for (int i = 0; i < count; ++i) out->add_strings("a");
        break;
      case onnx::AttributeProto::TENSOR:
        out->mutable_t()->set_data_type(Number(0, 17));
        for (int i = 0; i < count; ++i) {
          out->mutable_t()->add_dims(RandomInteger());
        }
        break;
      default:
        break;
    }
  }

  std::mt19937 random_;
  std::vector<std::unique_ptr<Type>> types_;
  std::vector<std::unique_ptr<onnx::AttributeProto>> attributes_;
};

TEST(OnnxInferenceTest, SurvivesAnyNode) {
  RandomRequest random(1);
  int64_t inferred = 0;
  int64_t errors = 0;
  for (const onnx::OpSchema& schema :
       onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    for (int i = 0; i < 300; ++i) {
      const OnnxInferenceRequest request = random.Make(schema);
      NamedDims names;
      SCOPED_TRACE(schema.Name());
      const OnnxInferenceResult result = InferWithOnnx(request, &names);
      ASSERT_EQ(result.result_types.size(), request.num_results);
      errors += result.error.empty() ? 0 : 1;
      for (const Type& type : result.result_types) {
        inferred += IsComplete(type) ? 1 : 0;
      }
    }
  }
  // The requests are not all nonsense.
  EXPECT_GT(inferred, 1000);
  EXPECT_GT(errors, 1000);
}

}  // namespace
}  // namespace onnx_memopt::io
