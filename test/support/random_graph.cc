#include "support/random_graph.h"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"

namespace onnx_memopt::testing {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

// A positive number is a size; -1 and -2 are the named dims.
using Dims = std::vector<int64_t>;
constexpr const char* kDimNames[] = {"n", "m"};

struct Tensor {
  std::string name;
  Dims dims;
  bool known = true;  // false: nobody knows the size
  bool local = true;  // defined in the graph that is being made
};

void SetShape(const Dims& dims, onnx::ValueInfoProto* info) {
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  auto* shape = type->mutable_shape();
  for (const int64_t dim : dims) {
    if (dim > 0) {
      shape->add_dim()->set_dim_value(dim);
    } else {
      shape->add_dim()->set_dim_param(kDimNames[-dim - 1]);
    }
  }
}

int64_t Count(const Dims& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

bool IsNumeric(const Dims& dims) {
  return std::all_of(dims.begin(), dims.end(),
                     [](int64_t dim) { return dim > 0; });
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed), options_(options) {}

  onnx::ModelProto Make() {
    model_.set_ir_version(10);
    model_.add_opset_import()->set_version(18);
    for (const char* domain : {"local", "nowhere"}) {
      auto* opset = model_.add_opset_import();
      opset->set_domain(domain);
      opset->set_version(1);
    }
    if (options_.calls) MakeFunctions();
    onnx::GraphProto* graph = model_.mutable_graph();
    graph->set_name("main");
    std::vector<Tensor> scope;
    AddScalarInput("condition", onnx::TensorProto::BOOL);
    AddScalarInput("trips", onnx::TensorProto::INT64);
    const int inputs = 1 + random_.Below(2);
    for (int i = 0; i < inputs; ++i) {
      Tensor input{.name = absl::StrCat("input", i), .dims = RandomDims()};
      auto* info = graph->add_input();
      info->set_name(input.name);
      SetShape(input.dims, info);
      scope.push_back(std::move(input));
    }
    AddWeights(graph, &scope);
    const size_t given = scope.size();
    const int count =
        options_.min_nodes +
        random_.Below(options_.max_nodes - options_.min_nodes + 1);
    graph_ = graph;
    AddNodes(count, options_.max_depth, &scope);
    AddOutputs(scope, given);
    return std::move(model_);
  }

 private:
  std::string NewName() { return absl::StrCat("v", next_name_++); }

  void AddScalarInput(const char* name, int32_t type) {
    auto* info = model_.mutable_graph()->add_input();
    info->set_name(name);
    auto* tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    tensor->mutable_shape();
  }

  Dims RandomDims() {
    if (options_.named_dims && !random_.OneIn(3)) {
      return random_.OneIn(2) ? Dims{-1 - random_.Below(2), 2}
                              : Dims{-1 - random_.Below(2)};
    }
    switch (random_.Below(4)) {
      case 0:
        return {2};
      case 1:
        return {4};
      case 2:
        return {2, 4};
      default:
        return {4, 1 + random_.Below(3)};
    }
  }

  // Weights of the model's values, some of them equal.
  void AddWeights(onnx::GraphProto* graph, std::vector<Tensor>* scope) {
    const int count = random_.Below(4);
    for (int i = 0; i < count; ++i) {
      Tensor weight{.name = absl::StrCat("w", next_name_++),
                    .dims = {2 + 2 * random_.Below(2)}};
      auto* tensor = graph->add_initializer();
      tensor->set_name(weight.name);
      tensor->set_data_type(onnx::TensorProto::FLOAT);
      tensor->add_dims(weight.dims[0]);
      const float value = static_cast<float>(random_.Below(2));
      for (int64_t k = 0; k < weight.dims[0]; ++k) {
        tensor->add_float_data(value);
      }
      scope->push_back(std::move(weight));
    }
  }

  onnx::NodeProto* AddNode(const char* op,
                           std::initializer_list<std::string> inputs,
                           std::initializer_list<std::string> outputs) {
    auto* node = graph_->add_node();
    node->set_op_type(op);
    for (const std::string& name : inputs) node->add_input(name);
    for (const std::string& name : outputs) node->add_output(name);
    if (random_.OneIn(2)) node->set_name(absl::StrCat("node", next_name_++));
    return node;
  }

  static onnx::AttributeProto* AddAttribute(
      onnx::NodeProto* node, const char* name,
      onnx::AttributeProto::AttributeType type) {
    auto* attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }

  static void SetInt(onnx::NodeProto* node, const char* name, int64_t value) {
    AddAttribute(node, name, onnx::AttributeProto::INT)->set_i(value);
  }

  // Recent values more often, so that graphs grow deep as well as wide.
  const Tensor& PickTensor(const std::vector<Tensor>& scope) {
    const auto size = static_cast<int>(scope.size());
    const int window = random_.OneIn(3) ? size : std::min(size, 4);
    return scope[static_cast<size_t>(size - 1 - random_.Below(window))];
  }

  void AddNodes(int count, int depth, std::vector<Tensor>* scope) {
    for (int i = 0; i < count; ++i) {
      const Tensor operand = PickTensor(*scope);
      const int kind = random_.Below(depth > 0 ? 15 : 12);
      if (!operand.known) {
        AddUnary(operand, scope);
        continue;
      }
      switch (kind) {
        case 0:
        case 1:
        case 2:
          AddUnary(operand, scope);
          break;
        case 3:
        case 4:
          AddBinary(operand, scope);
          break;
        case 5:
        case 6:
          AddView(operand, scope);
          break;
        case 7:
          AddSplit(operand, scope);
          break;
        case 8:
          AddConcat(operand, scope);
          break;
        case 9:
          AddClip(operand, scope);
          break;
        case 10:
          AddConstant(scope);
          break;
        case 11:
          AddCallOrUnknown(operand, scope);
          break;
        case 12:
          AddIf(operand, depth, scope);
          break;
        case 13:
          AddLoop(operand, depth, scope);
          break;
        default:
          AddScan(operand, depth, scope);
      }
    }
  }

  void AddUnary(const Tensor& x, std::vector<Tensor>* scope) {
    static const std::vector<const char*> kOps = {"Relu", "Sigmoid", "Exp",
                                                  "Neg",  "Tanh",    "Sqrt"};
    const std::string y = NewName();
    AddNode(random_.Pick(kOps), {x.name}, {y});
    scope->push_back({y, x.dims, x.known});
  }

  void AddBinary(const Tensor& x, std::vector<Tensor>* scope) {
    static const std::vector<const char*> kOps = {"Add", "Mul", "Sub"};
    std::vector<std::string> others;
    for (const Tensor& t : *scope) {
      if (t.known && t.dims == x.dims) others.push_back(t.name);
    }
    const std::string other = random_.Pick(others);
    if (IsNumeric(x.dims) && random_.OneIn(3))
      return AddScatter(x, other, scope);
    const std::string y = NewName();
    if (random_.OneIn(2)) {
      AddNode(random_.Pick(kOps), {x.name, other}, {y});
    } else {
      AddNode(random_.Pick(kOps), {other, x.name}, {y});
    }
    scope->push_back({y, x.dims});
  }

  // In place over its first operand, if its third is not that one's bytes too.
  void AddScatter(const Tensor& x, const std::string& updates,
                  std::vector<Tensor>* scope) {
    const std::string indices = absl::StrCat("indices", next_name_++);
    auto* tensor = graph_->add_initializer();
    tensor->set_name(indices);
    tensor->set_data_type(onnx::TensorProto::INT64);
    for (const int64_t dim : x.dims) tensor->add_dims(dim);
    for (int64_t i = 0; i < Count(x.dims); ++i) tensor->add_int64_data(0);
    const std::string y = NewName();
    AddNode("ScatterElements", {x.name, indices, updates}, {y});
    scope->push_back({y, x.dims});
  }

  void AddView(const Tensor& x, std::vector<Tensor>* scope) {
    const std::string y = NewName();
    if (random_.OneIn(2) || !IsNumeric(x.dims)) {
      AddNode("Identity", {x.name}, {y});
      scope->push_back({y, x.dims});
      return;
    }
    const int64_t count = Count(x.dims);
    if (random_.OneIn(2)) {
      SetInt(AddNode("Flatten", {x.name}, {y}), "axis", 0);
      scope->push_back({y, {1, count}});
      return;
    }
    const std::string shape = absl::StrCat("shape", next_name_++);
    auto* tensor = graph_->add_initializer();
    tensor->set_name(shape);
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(1);
    tensor->add_int64_data(-1);
    AddNode("Reshape", {x.name, shape}, {y});
    scope->push_back({y, {count}});
  }

  void AddSplit(const Tensor& x, std::vector<Tensor>* scope) {
    const auto axis = std::find_if(x.dims.begin(), x.dims.end(), [](int64_t d) {
      return d > 1 && d % 2 == 0;
    });
    if (axis == x.dims.end()) return AddUnary(x, scope);
    Dims half = x.dims;
    half[static_cast<size_t>(axis - x.dims.begin())] = *axis / 2;
    const std::string a = random_.OneIn(5) ? "" : NewName();
    const std::string b = NewName();
    auto* node = AddNode("Split", {x.name}, {a, b});
    SetInt(node, "axis", axis - x.dims.begin());
    SetInt(node, "num_outputs", 2);
    if (!a.empty()) scope->push_back({a, half});
    scope->push_back({b, half});
  }

  void AddConcat(const Tensor& x, std::vector<Tensor>* scope) {
    const size_t axis = x.dims.size() - 1;
    if (x.dims[axis] < 1 || x.dims[axis] > 16) return AddUnary(x, scope);
    std::vector<Tensor> others;
    for (const Tensor& t : *scope) {
      if (t.known && t.dims.size() == x.dims.size() && t.dims[axis] > 0 &&
          std::equal(t.dims.begin(), t.dims.end() - 1, x.dims.begin())) {
        others.push_back(t);
      }
    }
    const Tensor other = random_.Pick(others);
    const std::string y = NewName();
    SetInt(AddNode("Concat", {x.name, other.name}, {y}), "axis",
           static_cast<int64_t>(axis));
    Dims dims = x.dims;
    dims[axis] += other.dims[axis];
    scope->push_back({y, std::move(dims)});
  }

  void AddClip(const Tensor& x, std::vector<Tensor>* scope) {
    const std::string limit = absl::StrCat("limit", next_name_++);
    auto* tensor = graph_->add_initializer();
    tensor->set_name(limit);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_float_data(1);
    const std::string y = NewName();
    AddNode("Clip", {x.name, "", limit}, {y});
    scope->push_back({y, x.dims});
  }

  void AddConstant(std::vector<Tensor>* scope) {
    const std::string y = NewName();
    auto* values = AddAttribute(AddNode("Constant", {}, {y}), "value_floats",
                                onnx::AttributeProto::FLOATS);
    const int64_t count = 2 + 2 * random_.Below(2);
    for (int64_t i = 0; i < count; ++i) values->add_floats(1);
    scope->push_back({y, {count}});
  }

  void AddCallOrUnknown(const Tensor& x, std::vector<Tensor>* scope) {
    const std::string y = NewName();
    if (options_.calls && random_.Below(4) > 0) {
      const std::string z = NewName();
      auto* node = AddNode(random_.Pick(functions_).c_str(), {x.name}, {y, z});
      node->set_domain("local");
      scope->push_back({y, x.dims});
      scope->push_back({z, x.dims});
      return;
    }
    AddNode("Mystery", {x.name, ""}, {y})->set_domain("nowhere");
    const bool known = !options_.unknown_sizes || random_.OneIn(2);
    if (known) {
      auto* info = graph_->add_value_info();
      info->set_name(y);
      SetShape(x.dims, info);
    }
    scope->push_back({y, x.dims, known});
  }

  // Makes a graph with the values around it in scope. `make` gets the scope.
  template <typename Make>
  void MakeSubgraph(onnx::NodeProto* owner, const char* name,
                    const std::vector<Tensor>& scope, Make make) {
    onnx::GraphProto nested;
    nested.set_name(absl::StrCat(name, next_name_++));
    onnx::GraphProto* outer = std::exchange(graph_, &nested);
    std::vector<Tensor> inner = scope;
    for (Tensor& tensor : inner) tensor.local = false;
    make(&inner);
    graph_ = outer;
    *AddAttribute(owner, name, onnx::AttributeProto::GRAPH)->mutable_g() =
        std::move(nested);
  }

  // A value of the graph's own with these dims.
  std::string LocalResult(const Dims& dims, const std::string& fallback,
                          std::vector<Tensor>* scope) {
    std::vector<std::string> names;
    for (const Tensor& t : *scope) {
      if (t.local && t.known && t.dims == dims) names.push_back(t.name);
    }
    if (!names.empty() && !random_.OneIn(4)) return random_.Pick(names);
    const std::string y = NewName();
    AddNode(random_.OneIn(3) ? "Identity" : "Exp", {fallback}, {y});
    scope->push_back({y, dims});
    return y;
  }

  void AddResult(const std::string& name) {
    graph_->add_output()->set_name(name);
  }

  void AddIf(const Tensor& x, int depth, std::vector<Tensor>* scope) {
    const std::string y = NewName();
    const std::string z = NewName();
    onnx::NodeProto node;
    node.set_op_type("If");
    node.add_input("condition");
    node.add_output(y);
    node.add_output(z);
    for (const char* branch : {"then_branch", "else_branch"}) {
      MakeSubgraph(&node, branch, *scope, [&](std::vector<Tensor>* inner) {
        AddNodes(random_.Below(5), depth - 1, inner);
        AddResult(LocalResult(x.dims, x.name, inner));
        AddResult(LocalResult(x.dims, x.name, inner));
      });
    }
    *graph_->add_node() = std::move(node);
    scope->push_back({y, x.dims});
    scope->push_back({z, x.dims});
  }

  Tensor AddParam(const Dims& dims) {
    Tensor param{.name = NewName(), .dims = dims};
    graph_->add_input()->set_name(param.name);
    return param;
  }

  void AddLoop(const Tensor& x, int depth, std::vector<Tensor>* scope) {
    const std::string y = NewName();
    const std::string rows = NewName();
    onnx::NodeProto node;
    node.set_op_type("Loop");
    node.add_input("trips");
    node.add_input(random_.OneIn(2) ? "" : "condition");
    node.add_input(x.name);
    node.add_output(y);
    node.add_output(rows);
    MakeSubgraph(&node, "body", *scope, [&](std::vector<Tensor>* inner) {
      graph_->add_input()->set_name(NewName());
      const std::string go = NewName();
      graph_->add_input()->set_name(go);
      const Tensor carried = AddParam(x.dims);
      inner->push_back(carried);
      AddNodes(random_.Below(5), depth - 1, inner);
      if (random_.OneIn(2)) {
        AddResult(go);
      } else {
        const std::string again = NewName();
        AddNode("Identity", {go}, {again});
        AddResult(again);
      }
      AddResult(LocalResult(x.dims, carried.name, inner));
      AddResult(LocalResult(x.dims, carried.name, inner));
    });
    *graph_->add_node() = std::move(node);
    scope->push_back({y, x.dims});
    scope->push_back({rows, {}, /*known=*/false});
    // The number of trips is not known, so the stacked rows are of no known
    // size: a dead value, or one that only a test of unknown sizes may have.
    if (!options_.unknown_sizes) {
      scope->pop_back();
      graph_->mutable_node(graph_->node_size() - 1)
          ->mutable_output()
          ->RemoveLast();
      auto* body = graph_->mutable_node(graph_->node_size() - 1)
                       ->mutable_attribute(0)
                       ->mutable_g();
      body->mutable_output()->RemoveLast();
    }
  }

  void AddScan(const Tensor& x, int depth, std::vector<Tensor>* scope) {
    if (x.dims.size() != 2) return AddUnary(x, scope);
    const Tensor state = PickTensor(*scope);
    if (!state.known) return AddUnary(x, scope);
    const Dims slice = {x.dims[1]};
    const std::string last = NewName();
    const std::string all = NewName();
    onnx::NodeProto node;
    node.set_op_type("Scan");
    node.add_input(state.name);
    node.add_input(x.name);
    node.add_output(last);
    node.add_output(all);
    SetInt(&node, "num_scan_inputs", 1);
    MakeSubgraph(&node, "body", *scope, [&](std::vector<Tensor>* inner) {
      const Tensor carried = AddParam(state.dims);
      const Tensor row = AddParam(slice);
      inner->push_back(carried);
      inner->push_back(row);
      AddNodes(random_.Below(5), depth - 1, inner);
      AddResult(LocalResult(state.dims, carried.name, inner));
      AddResult(LocalResult(slice, row.name, inner));
    });
    *graph_->add_node() = std::move(node);
    scope->push_back({last, state.dims});
    scope->push_back({all, x.dims});
  }

  onnx::FunctionProto* StartFunction(const char* name) {
    auto* function = model_.add_functions();
    function->set_name(name);
    function->set_domain("local");
    function->add_opset_import()->set_version(18);
    auto* opset = function->add_opset_import();
    opset->set_domain("local");
    opset->set_version(1);
    functions_.emplace_back(name);
    return function;
  }

  static onnx::NodeProto* AddTo(onnx::FunctionProto* function, const char* op,
                                std::initializer_list<const char*> inputs,
                                std::initializer_list<const char*> outputs) {
    auto* node = function->add_node();
    node->set_op_type(op);
    for (const char* name : inputs) node->add_input(name);
    for (const char* name : outputs) node->add_output(name);
    return node;
  }

  // One input, two outputs of its shape: a new value and a view of it; the
  // input itself, and a value with a dead one beside it; results of calls.
  void MakeFunctions() {
    auto* view = StartFunction("WithView");
    view->add_input("a");
    view->add_output("b");
    view->add_output("c");
    AddTo(view, "Exp", {"a"}, {"t"});
    AddTo(view, "Add", {"t", "a"}, {"b"});
    AddTo(view, "Identity", {"b"}, {"c"});
    auto* pass = StartFunction("PassThrough");
    pass->add_input("a");
    pass->add_output("a");
    pass->add_output("c");
    AddTo(pass, "Tanh", {"a"}, {"dead"});
    AddTo(pass, "Relu", {"a"}, {"t"});
    AddTo(pass, "Sigmoid", {"t"}, {"c"});
    auto* outer = StartFunction("Outer");
    outer->add_input("a");
    outer->add_output("d");
    outer->add_output("e");
    AddTo(outer, "WithView", {"a"}, {"b", "c"})->set_domain("local");
    AddTo(outer, "PassThrough", {"b"}, {"d", "t"})->set_domain("local");
    AddTo(outer, "Mul", {"t", "c"}, {"e"});
  }

  void AddOutputs(const std::vector<Tensor>& scope, size_t given) {
    const int count = 1 + random_.Below(3);
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      const auto made = static_cast<int>(scope.size() - given);
      const bool any = made == 0 || random_.OneIn(8);
      const size_t at =
          any ? static_cast<size_t>(
                    random_.Below(static_cast<int>(scope.size())))
              : scope.size() - 1 -
                    static_cast<size_t>(random_.Below(std::min(made, 6)));
      const std::string& name = scope[at].name;
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      names.push_back(name);
      auto* info = model_.mutable_graph()->add_output();
      info->set_name(name);
      info->mutable_type()->mutable_tensor_type()->set_elem_type(
          onnx::TensorProto::FLOAT);
    }
  }

  Random random_;
  const RandomGraphOptions& options_;
  onnx::ModelProto model_;
  onnx::GraphProto* graph_ = nullptr;
  std::vector<std::string> functions_;
  int next_name_ = 0;
};

}  // namespace

onnx::ModelProto RandomModel(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).Make();
}

ir::Graph ImportOrThrow(const onnx::ModelProto& model) {
  auto loaded = io::FromProto(model, "");
  if (!loaded.ok()) {
    throw std::runtime_error(std::string(loaded.status().message()));
  }
  auto graph = io::Import(*loaded, {});
  if (!graph.ok()) {
    throw std::runtime_error(std::string(graph.status().message()));
  }
  return *std::move(graph);
}

ir::Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return ImportOrThrow(RandomModel(seed, options));
}

}  // namespace onnx_memopt::testing
