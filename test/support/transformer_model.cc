#include "support/transformer_model.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace onnx_memopt::testing {
namespace {

class Builder {
 public:
  explicit Builder(const TransformerSizes& sizes) : s_(sizes) {}

  onnx::ModelProto Build() {
    model_.set_ir_version(9);
    model_.add_opset_import()->set_version(20);
    graph().set_name("transformer");
    Scalar("ratio", 0.1F);
    Scalar("scale", 0.125F);
    onnx::TensorProto* training = graph().add_initializer();
    training->set_name("training");
    training->set_data_type(onnx::TensorProto::BOOL);
    training->add_int32_data(1);
    Shape("split_heads",
          {s_.batch, s_.sequence, s_.heads, s_.hidden / s_.heads});
    Shape("join_heads", {s_.batch, s_.sequence, s_.hidden});
    std::string x = "x";
    if (s_.vocabulary > 0) {
      SetType(graph().add_input(), "ids", onnx::TensorProto::INT64,
              {s_.batch, s_.sequence});
      x = Node("Gather", {Weight({s_.vocabulary, s_.hidden}), "ids"});
    } else {
      SetType(graph().add_input(), x, onnx::TensorProto::FLOAT,
              {s_.batch, s_.sequence, s_.hidden});
    }
    for (int64_t i = 0; i < s_.layers; ++i) x = Layer(x);
    int64_t last = s_.hidden;
    if (s_.vocabulary > 0) {
      x = Node("MatMul", {x, Weight({s_.hidden, s_.vocabulary})});
      last = s_.vocabulary;
    }
    SetType(graph().add_output(), x, onnx::TensorProto::FLOAT,
            {s_.batch, s_.sequence, last});
    return std::move(model_);
  }

 private:
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  static void SetType(onnx::ValueInfoProto* value, const std::string& name,
                      int type, const std::vector<int64_t>& dims) {
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (int64_t dim : dims) {
      tensor->mutable_shape()->add_dim()->set_dim_value(dim);
    }
  }

  void Scalar(const std::string& name, float value) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_float_data(value);
  }

  void Shape(const std::string& name, const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(static_cast<int64_t>(dims.size()));
    for (int64_t dim : dims) tensor->add_int64_data(dim);
  }

  // In a file that does not exist.
  std::string Weight(const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(absl::StrCat("weight_", graph().initializer_size()));
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    int64_t bytes = 4;
    for (int64_t dim : dims) {
      tensor->add_dims(dim);
      bytes *= dim;
    }
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>("location", "absent.data"),
          {"offset", absl::StrCat(offset_)}}) {
      onnx::StringStringEntryProto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    offset_ += bytes;
    return tensor->name();
  }

  std::string Node(const std::string& op,
                   const std::vector<std::string>& inputs) {
    onnx::NodeProto* node = graph().add_node();
    node->set_op_type(op);
    node->set_name(absl::StrCat(op, "_", graph().node_size()));
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(absl::StrCat(node->name(), "_out"));
    return node->output(0);
  }

  std::string Transpose(const std::string& x, const std::vector<int>& perm) {
    const std::string y = Node("Transpose", {x});
    onnx::AttributeProto* attribute =
        graph().mutable_node(graph().node_size() - 1)->add_attribute();
    attribute->set_name("perm");
    attribute->set_type(onnx::AttributeProto::INTS);
    for (int axis : perm) attribute->add_ints(axis);
    return y;
  }

  std::string Dropout(const std::string& x) {
    const std::string y = Node("Dropout", {x, "ratio", "training"});
    onnx::NodeProto* node = graph().mutable_node(graph().node_size() - 1);
    node->add_output(absl::StrCat(node->name(), "_mask"));
    return y;
  }

  std::string Norm(const std::string& x) {
    return Node("LayerNormalization",
                {x, Weight({s_.hidden}), Weight({s_.hidden})});
  }
  std::string Linear(const std::string& x, int64_t from, int64_t to) {
    return Node("MatMul", {x, Weight({from, to})});
  }

  std::string Layer(const std::string& x) {
    const int64_t h = s_.hidden;
    const std::string normed = Norm(x);
    std::vector<std::string> qkv;
    for (int i = 0; i < 3; ++i) {
      const std::string heads =
          Node("Reshape", {Linear(normed, h, h), "split_heads"});
      qkv.push_back(Transpose(heads, i == 1 ? std::vector<int>{0, 2, 3, 1}
                                            : std::vector<int>{0, 2, 1, 3}));
    }
    std::string scores = Node("MatMul", {qkv[0], qkv[1]});
    scores = Node("Softmax", {Node("Mul", {scores, "scale"})});
    const std::string mixed = Node("MatMul", {Dropout(scores), qkv[2]});
    const std::string joined =
        Node("Reshape", {Transpose(mixed, {0, 2, 1, 3}), "join_heads"});
    const std::string y = Node("Add", {x, Dropout(Linear(joined, h, h))});
    const std::string wide = Node("Gelu", {Linear(Norm(y), h, 4 * h)});
    return Node("Add", {y, Dropout(Linear(wide, 4 * h, h))});
  }

  const TransformerSizes& s_;
  onnx::ModelProto model_;
  int64_t offset_ = 0;
};

}  // namespace

onnx::ModelProto MakeTransformer(const TransformerSizes& sizes) {
  return Builder(sizes).Build();
}

}  // namespace onnx_memopt::testing
