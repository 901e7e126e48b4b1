#include "bench/transformer.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace onnx_memopt::bench {
namespace {

constexpr int kHeads = 12;
constexpr int64_t kHidden = 768;
constexpr int64_t kSequence = 128;

class Builder {
 public:
  onnx::ModelProto Build(int64_t nodes) {
    model_.set_ir_version(9);
    model_.add_opset_import()->set_version(18);
    graph().set_name("transformer");
    SetType(graph().add_input(), "x");
    std::string x = "x";
    while (graph().node_size() < nodes) {
      const int64_t left = nodes - graph().node_size();
      x = left < kNodesPerBlock ? Node("Tanh", {x}) : Block(x);
    }
    SetType(graph().add_output(), x);
    return std::move(model_);
  }

 private:
  static constexpr int64_t kNodesPerBlock = kHeads * 9 + 9;

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  static void SetType(onnx::ValueInfoProto* value, const std::string& name) {
    value->set_name(name);
    auto* type = value->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (int64_t dim : {int64_t{1}, kSequence, kHidden}) {
      type->mutable_shape()->add_dim()->set_dim_value(dim);
    }
  }

  // Returns the name of the result.
  std::string Node(const std::string& op,
                   const std::vector<std::string>& inputs) {
    onnx::NodeProto* node = graph().add_node();
    node->set_op_type(op);
    node->set_name(absl::StrCat("encoder/", op, "_", graph().node_size()));
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(absl::StrCat(node->name(), "/output"));
    return node->output(0);
  }

  void SetInt(const std::string& name, int64_t value) {
    onnx::AttributeProto* attribute = LastNode().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }

  onnx::NodeProto& LastNode() {
    return *graph().mutable_node(graph().node_size() - 1);
  }

  std::string Weight(const std::vector<int64_t>& dims) {
    onnx::TensorProto* tensor = graph().add_initializer();
    tensor->set_name(absl::StrCat("weight_", graph().initializer_size()));
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    int64_t size_bytes = 4;
    for (int64_t dim : dims) {
      tensor->add_dims(dim);
      size_bytes *= dim;
    }
    const std::pair<std::string, std::string> entries[] = {
        {"location", "absent.data"}, {"offset", absl::StrCat(data_bytes_)}};
    for (const auto& [key, value] : entries) {
      onnx::StringStringEntryProto* entry = tensor->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    data_bytes_ += size_bytes;
    return tensor->name();
  }

  std::string Linear(const std::string& x, int64_t fan_in, int64_t fan_out) {
    return Node("MatMul", {x, Weight({fan_in, fan_out})});
  }

  std::string Head(const std::string& x) {
    constexpr int64_t kSize = kHidden / kHeads;
    const std::string q = Linear(x, kHidden, kSize);
    const std::string k = Linear(x, kHidden, kSize);
    const std::string v = Linear(x, kHidden, kSize);
    const std::string transposed = Node("Transpose", {k});
    onnx::AttributeProto* perm = LastNode().add_attribute();
    perm->set_name("perm");
    perm->set_type(onnx::AttributeProto::INTS);
    for (int64_t axis : {0, 2, 1}) perm->add_ints(axis);
    std::string scores = Node("MatMul", {q, transposed});
    scores = Node("Sigmoid", {Node("Neg", {scores})});
    scores = Node("Softmax", {scores});
    return Node("MatMul", {scores, v});
  }

  std::string Block(const std::string& x) {
    const std::string normed =
        Node("LayerNormalization", {x, Weight({kHidden}), Weight({kHidden})});
    std::vector<std::string> heads;
    for (int i = 0; i < kHeads; ++i) heads.push_back(Head(normed));
    const std::string joined = Node("Concat", heads);
    SetInt("axis", -1);
    const std::string y = Node("Add", {x, Linear(joined, kHidden, kHidden)});
    const std::string wide = Linear(y, kHidden, 4 * kHidden);
    const std::string gate = Node("Sigmoid", {wide});
    const std::string product = Node("Mul", {wide, gate});
    const std::string down = Linear(product, 4 * kHidden, kHidden);
    return Node("Add", {y, down});
  }

  onnx::ModelProto model_;
  int64_t data_bytes_ = 0;
};

}  // namespace

onnx::ModelProto MakeTransformer(int64_t nodes) {
  return Builder().Build(nodes);
}

}  // namespace onnx_memopt::bench
