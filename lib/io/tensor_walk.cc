#include "onnx_memopt/io/tensor_walk.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "io/wire_walk.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// Both walks in one: `Model` is const onnx::ModelProto or onnx::ModelProto, and
// so is the constness of everything below it.
template <typename Model, typename Visit>
class TensorWalker {
 public:
  explicit TensorWalker(Visit visit) : visit_(visit) {}

  absl::Status Walk(Model* model) {
    if (model->has_graph()) RETURN_IF_ERROR(Graph(model->graph()));
    for (const onnx::FunctionProto& function : model->functions()) {
      RETURN_IF_ERROR(Attributes(function.attribute_proto(), ""));
      for (const onnx::NodeProto& node : function.node()) {
        RETURN_IF_ERROR(Node(node));
      }
    }
    for (const onnx::TrainingInfoProto& training : model->training_info()) {
      if (training.has_initialization()) {
        RETURN_IF_ERROR(Graph(training.initialization()));
      }
      if (training.has_algorithm()) {
        RETURN_IF_ERROR(Graph(training.algorithm()));
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  using Like = std::conditional_t<std::is_const_v<Model>, const T, T>;

  // Reading accessors are const for both kinds; a mutable walk owns the model,
  // so the cast gives back what the caller passed.
  template <typename T>
  static Like<T>& Get(const T& message) {
    return const_cast<Like<T>&>(message);
  }

  absl::Status Tensor(const onnx::TensorProto& tensor, absl::string_view owner,
                      bool is_initializer) {
    const absl::string_view name =
        tensor.name().empty() ? owner : absl::string_view(tensor.name());
    return visit_(&Get(tensor), TensorPlace{name, is_initializer});
  }

  absl::Status Sparse(const onnx::SparseTensorProto& sparse,
                      absl::string_view owner) {
    const absl::string_view name =
        sparse.values().name().empty()
            ? owner
            : absl::string_view(sparse.values().name());
    if (sparse.has_values()) {
      RETURN_IF_ERROR(Tensor(sparse.values(), name, /*is_initializer=*/false));
    }
    if (sparse.has_indices()) {
      RETURN_IF_ERROR(Tensor(sparse.indices(), name, /*is_initializer=*/false));
    }
    return absl::OkStatus();
  }

  template <typename AttributeList>
  absl::Status Attributes(const AttributeList& attributes,
                          absl::string_view owner) {
    for (const onnx::AttributeProto& attribute : attributes) {
      if (attribute.has_t()) {
        RETURN_IF_ERROR(Tensor(attribute.t(), owner, /*is_initializer=*/false));
      }
      for (const onnx::TensorProto& tensor : attribute.tensors()) {
        RETURN_IF_ERROR(Tensor(tensor, owner, /*is_initializer=*/false));
      }
      if (attribute.has_sparse_tensor()) {
        RETURN_IF_ERROR(Sparse(attribute.sparse_tensor(), owner));
      }
      for (const onnx::SparseTensorProto& sparse : attribute.sparse_tensors()) {
        RETURN_IF_ERROR(Sparse(sparse, owner));
      }
      if (attribute.has_g()) RETURN_IF_ERROR(Graph(attribute.g()));
      for (const onnx::GraphProto& graph : attribute.graphs()) {
        RETURN_IF_ERROR(Graph(graph));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Node(const onnx::NodeProto& node) {
    return Attributes(node.attribute(),
                      node.output().empty()
                          ? absl::string_view(node.name())
                          : absl::string_view(node.output(0)));
  }

  absl::Status Graph(const onnx::GraphProto& graph) {
    if (depth_ > kMaxNestedGraphs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "subgraphs are nested more than ", kMaxNestedGraphs, " deep"));
    }
    ++depth_;
    for (const onnx::TensorProto& tensor : graph.initializer()) {
      RETURN_IF_ERROR(Tensor(tensor, "", /*is_initializer=*/true));
    }
    for (const onnx::SparseTensorProto& sparse : graph.sparse_initializer()) {
      RETURN_IF_ERROR(Sparse(sparse, ""));
    }
    for (const onnx::NodeProto& node : graph.node()) {
      RETURN_IF_ERROR(Node(node));
    }
    --depth_;
    return absl::OkStatus();
  }

  Visit visit_;
  int depth_ = 0;
};

}  // namespace

absl::Status ForEachTensor(const onnx::ModelProto& model,
                           absl::FunctionRef<absl::Status(
                               const onnx::TensorProto&, const TensorPlace&)>
                               visit) {
  const auto by_pointer = [&](const onnx::TensorProto* tensor,
                              const TensorPlace& place) {
    return visit(*tensor, place);
  };
  return TensorWalker<const onnx::ModelProto, decltype(by_pointer)>(by_pointer)
      .Walk(&model);
}

absl::Status ForEachMutableTensor(
    onnx::ModelProto* model,
    absl::FunctionRef<absl::Status(onnx::TensorProto*, const TensorPlace&)>
        visit) {
  return TensorWalker<onnx::ModelProto, decltype(visit)>(visit).Walk(model);
}

}  // namespace onnx_memopt::io
