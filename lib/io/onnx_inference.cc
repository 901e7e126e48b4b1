#include "io/onnx_inference.h"

#include <algorithm>
#include <exception>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "onnx/defs/schema.h"
#include "onnx/defs/shape_inference.h"

namespace onnx_memopt::io {
namespace {

using ir::Contents;
using ir::Element;

bool IsInteger(const ir::Type& type) {
  return type.element == ir::ElementType::kInt64 ||
         type.element == ir::ElementType::kInt32;
}

// The operand's elements as a constant tensor, if all of them are numbers.
std::optional<onnx::TensorProto> ToTensorProto(const ir::Type& type,
                                               const Contents& contents) {
  onnx::TensorProto tensor;
  tensor.set_data_type(static_cast<int32_t>(type.element));
  for (int64_t dim : contents.dims) tensor.add_dims(dim);
  for (const Element& element : contents.elements) {
    if (element.integer && element.integer->is_constant() && IsInteger(type)) {
      if (type.element == ir::ElementType::kInt64) {
        tensor.add_int64_data(element.integer->constant());
      } else {
        tensor.add_int32_data(
            static_cast<int32_t>(element.integer->constant()));
      }
    } else if (element.real && type.element == ir::ElementType::kFloat) {
      tensor.add_float_data(static_cast<float>(*element.real));
    } else {
      return std::nullopt;
    }
  }
  return tensor;
}

class Context final : public onnx::InferenceContext {
 public:
  Context(const OnnxInferenceRequest& request, NamedDims* names)
      : request_(request), names_(names), results_(request.num_results) {
    const size_t n = request.operand_types.size();
    types_.resize(n);
    data_.resize(n);
    symbolic_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      if (request.operand_types[i] == nullptr ||
          request.operand_types[i]->kind == ir::TypeKind::kUnknown) {
        continue;
      }
      types_[i] = ToTypeProto(*request.operand_types[i], names);
      const Contents* contents = request.operand_contents[i].get();
      if (contents == nullptr) continue;
      data_[i] = ToTensorProto(*request.operand_types[i], *contents);
      if (!data_[i] && contents->dims.size() == 1) {
        symbolic_[i] = ToSymbolic(*contents);
      }
    }
  }

  const onnx::AttributeProto* getAttribute(
      const std::string& name) const override {
    const auto it = request_.attributes.find(name);
    return it == request_.attributes.end() ? nullptr : it->second;
  }
  size_t getNumInputs() const override { return types_.size(); }
  const onnx::TypeProto* getInputType(size_t i) const override {
    return i < types_.size() && types_[i] ? &*types_[i] : nullptr;
  }
  bool hasInput(size_t i) const override {
    return i < request_.operand_types.size() &&
           request_.operand_types[i] != nullptr;
  }
  const onnx::TensorProto* getInputData(size_t i) const override {
    if (i >= data_.size()) return nullptr;
    if (request_.operand_data[i] != nullptr) return request_.operand_data[i];
    return data_[i] ? &*data_[i] : nullptr;
  }
  const onnx::SparseTensorProto* getInputSparseData(size_t) const override {
    return nullptr;
  }
  const onnx::TensorShapeProto* getSymbolicInput(size_t i) const override {
    return i < symbolic_.size() && symbolic_[i] ? &*symbolic_[i] : nullptr;
  }
  size_t getNumOutputs() const override { return results_.size(); }
  onnx::TypeProto* getOutputType(size_t i) override {
    // Some of ONNX's functions set results that the node leaves out.
    return i < results_.size() ? &results_[i] : &unused_result_;
  }
  bool hasOutput(size_t i) override { return i < results_.size(); }
  // Subgraphs are inferred by our own walk, not from inside a node.
  onnx::GraphInferencer* getGraphAttributeInferencer(
      const std::string&) override {
    return nullptr;
  }

  const std::vector<onnx::TypeProto>& results() const { return results_; }

 private:
  std::optional<onnx::TensorShapeProto> ToSymbolic(const Contents& contents) {
    onnx::TensorShapeProto shape;
    for (const Element& element : contents.elements) {
      auto* dim = shape.add_dim();
      if (element.real) return std::nullopt;
      if (!element.integer) continue;
      if (element.integer->is_constant()) {
        dim->set_dim_value(element.integer->constant());
      } else {
        std::string text = element.integer->ToString();
        dim->set_dim_param(text);
        names_->try_emplace(std::move(text), *element.integer);
      }
    }
    return shape;
  }

  const OnnxInferenceRequest& request_;
  NamedDims* names_;
  std::vector<std::optional<onnx::TypeProto>> types_;
  std::vector<std::optional<onnx::TensorProto>> data_;
  std::vector<std::optional<onnx::TensorShapeProto>> symbolic_;
  std::vector<onnx::TypeProto> results_;
  onnx::TypeProto unused_result_;
};

// ONNX's functions use axes as indices, and compute with sizes, without looking
// for values that no tensor can have.
bool IsSane(const onnx::AttributeProto& attribute, int64_t rank) {
  constexpr int64_t kLargest = int64_t{1} << 31;
  const bool is_axis = absl::StrContains(attribute.name(), "ax") ||
                       attribute.name() == "batch_dims";
  const int64_t limit = is_axis ? rank + 1 : kLargest;
  const auto in_range = [&](int64_t value) {
    return value >= -limit && value <= limit;
  };
  return in_range(attribute.i()) &&
         std::all_of(attribute.ints().begin(), attribute.ints().end(),
                     in_range);
}

// True if the node has the operands, results and attributes that the op's
// schema asks for, and the types of its operands are known. ONNX's functions
// are written for nodes that its checker has passed: they read what must be
// there without looking.
bool Fits(const onnx::OpSchema& schema, const OnnxInferenceRequest& request) {
  const auto in_range = [](size_t count, int least, int most) {
    return count >= static_cast<size_t>(std::max(least, 0)) &&
           count <= static_cast<size_t>(std::max(most, 0));
  };
  const std::vector<const ir::Type*>& operands = request.operand_types;
  if (!in_range(operands.size(), schema.min_input(), schema.max_input()) ||
      !in_range(request.num_results, schema.min_output(),
                schema.max_output())) {
    return false;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    const bool may_be_left_out =
        i < schema.inputs().size() &&
        schema.inputs()[i].GetOption() == onnx::OpSchema::Optional;
    if (operands[i] == nullptr && !may_be_left_out) return false;
    if (operands[i] != nullptr && operands[i]->kind == ir::TypeKind::kUnknown) {
      return false;
    }
  }
  size_t rank = 0;
  for (const ir::Type* type : operands) {
    if (type != nullptr && type->shape) {
      rank = std::max(rank, type->shape->size());
    }
  }
  for (const auto& [name, attribute] : schema.attributes()) {
    const auto it = request.attributes.find(name);
    if (it == request.attributes.end()) {
      if (attribute.required) return false;
    } else if (it->second->type() != attribute.type ||
               !IsSane(*it->second, static_cast<int64_t>(rank))) {
      return false;
    }
  }
  return true;
}

// Functions of ONNX that do not come back from what a file may hold; our own
// rules say as much of valid nodes. Einsum's uses the characters of the
// equation as indices without looking, Expand's first one makes as many
// dimensions as its operand says.
bool IsUnsafe(const OnnxInferenceRequest& request) {
  return request.domain.empty() &&
         (request.op_type == "Einsum" ||
          (request.op_type == "Expand" && request.opset < 13));
}

std::string OneLine(absl::string_view text) {
  std::string line(text.substr(0, text.find('\n')));
  return line;
}

}  // namespace

OnnxInferenceResult InferWithOnnx(const OnnxInferenceRequest& request,
                                  NamedDims* names) {
  OnnxInferenceResult result;
  result.result_types.resize(request.num_results);
  if (IsUnsafe(request)) return result;
  const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
      std::string(request.op_type), request.opset, std::string(request.domain));
  if (schema == nullptr || !schema->has_type_and_shape_inference_function() ||
      !Fits(*schema, request)) {
    return result;
  }
  Context context(request, names);
  try {
    schema->GetTypeAndShapeInferenceFunction()(context);
  } catch (const std::exception& e) {
    // ONNX reports what it finds wrong by exceptions of several types.
    result.error = OneLine(e.what());
  }
  for (size_t i = 0; i < request.num_results; ++i) {
    result.result_types[i] = FromTypeProto(context.results()[i], *names);
  }
  return result;
}

}  // namespace onnx_memopt::io
