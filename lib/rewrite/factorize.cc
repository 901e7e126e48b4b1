#include "onnx_memopt/rewrite/factorize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/half_precision.h"
#include "onnx_memopt/rewrite/low_rank.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Attribute;
using ir::BlockId;
using ir::ElementType;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

using Dims = std::vector<int64_t>;

bool IsOp(const Node& node, absl::string_view op) {
  return node.domain.empty() && node.op_type == op && !node.is_call;
}

std::string Bytes(const Matrix& matrix) {
  std::string bytes(matrix.elements.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), matrix.elements.data(), bytes.size());
  return bytes;
}

// From W [o, i, kh, kw] to [i * kh, o * kw].
Matrix SpatialMatrix(const std::vector<float>& w, const Dims& d) {
  Matrix m{d[1] * d[2], d[0] * d[3], std::vector<float>(w.size())};
  size_t from = 0;
  for (int64_t o = 0; o < d[0]; ++o) {
    for (int64_t row = 0; row < d[1] * d[2]; ++row) {
      for (int64_t x = 0; x < d[3]; ++x) {
        m.elements[static_cast<size_t>(row * m.columns + o * d[3] + x)] =
            w[from++];
      }
    }
  }
  return m;
}

// [r, o * kw] to [o, r, 1, kw].
Matrix ToHorizontal(const Matrix& right, int64_t outputs, int64_t width) {
  Matrix m{outputs, right.rows * width,
           std::vector<float>(right.elements.size())};
  for (int64_t r = 0; r < right.rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t x = 0; x < width; ++x) {
        m.elements[static_cast<size_t>((o * right.rows + r) * width + x)] =
            right.elements[static_cast<size_t>(r * right.columns + o * width +
                                               x)];
      }
    }
  }
  return m;
}

// One weight with all the nodes that read it.
struct Group {
  ValueId weight = ir::kNoValue;
  std::vector<NodeId> nodes;
  bool usable = true;
};

class Factorizer {
 public:
  Factorizer(const FactorOptions& options, Graph* graph, bool apply)
      : options_(options), graph_(*graph), builder_(graph), apply_(apply) {}

  absl::StatusOr<FactorResult> Run() {
    for (const Group& group : FindGroups()) {
      if (group.usable) RETURN_IF_ERROR(Handle(group));
    }
    if (apply_) Finish();
    return std::move(result_);
  }

 private:
  std::vector<Group> FindGroups() {
    std::vector<Group> groups;
    std::map<ValueId, size_t> index;
    const auto use = [&](ValueId value, NodeId node, bool usable) {
      if (value == ir::kNoValue || !IsFloatConstant(graph_, value) ||
          graph_.value(value).weight == ir::kNoWeight) {
        return;
      }
      const auto [it, is_new] = index.emplace(value, groups.size());
      if (is_new) groups.push_back({.weight = value});
      Group& group = groups[it->second];
      group.usable = group.usable && usable;
      if (node != ir::kNoNode) group.nodes.push_back(node);
    };
    for (BlockId block : BlocksOutsideCalls(graph_)) {
      for (ValueId result : graph_.block(block).results) {
        use(result, ir::kNoNode, /*usable=*/false);
      }
      for (NodeId id : graph_.block(block).nodes) {
        const Node& node = graph_.node(id);
        for (size_t i = 0; i < node.operands.size(); ++i) {
          use(node.operands[i], id, IsLayer(node, i));
        }
      }
    }
    // A weight that plays two parts can be split for neither.
    for (Group& group : groups) {
      if (!group.usable) continue;
      for (NodeId node : group.nodes) {
        group.usable =
            group.usable &&
            FormOf(graph_.node(node), group.weight) ==
                FormOf(graph_.node(group.nodes[0]), group.weight) &&
            TransposedInGemm(node) == TransposedInGemm(group.nodes[0]);
      }
      group.usable =
          group.usable && (group.nodes.size() == 1 ||
                           FormOf(graph_.node(group.nodes[0]), group.weight) !=
                               LayerForm::kConvChannels);
    }
    return groups;
  }

  bool TransposedInGemm(NodeId id) const {
    return ir::IntAttribute(graph_.node(id), "transB", 0) != 0;
  }

  // True if operand `index` may be a matrix of weights to be split.
  bool IsLayer(const Node& node, size_t index) const {
    const ValueId operand = node.operands[index];
    if (operand == ir::kNoValue || !IsFloatConstant(graph_, operand)) {
      return false;
    }
    const ir::WeightId weight = graph_.value(operand).weight;
    if (weight == ir::kNoWeight) return false;
    const size_t rank = graph_.weight(weight).dims.size();
    const bool twice =
        std::count(node.operands.begin(), node.operands.end(), operand) > 1;
    if (twice || node.results.size() != 1) return false;
    if (IsOp(node, "MatMul")) return rank == 2;
    if (IsOp(node, "Gemm")) return rank == 2 && index == 1;
    return IsOp(node, "Conv") && rank >= 3 && index == 1 &&
           ir::IntAttribute(node, "group", 1) == 1;
  }

  static LayerForm FormOf(const Node& node, ValueId weight) {
    if (IsOp(node, "Gemm")) return LayerForm::kGemm;
    if (IsOp(node, "Conv")) return LayerForm::kConvChannels;
    return node.operands[0] == weight ? LayerForm::kMatMulFirst
                                      : LayerForm::kMatMul;
  }

  // The matrix that is split, as the form has it.
  static Matrix ToMatrix(std::vector<float> elements, const Dims& dims,
                         LayerForm form, bool transposed) {
    if (form == LayerForm::kConvSpatial) return SpatialMatrix(elements, dims);
    int64_t columns = 1;
    for (size_t i = 1; i < dims.size(); ++i) columns *= dims[i];
    Matrix matrix{dims[0], columns, std::move(elements)};
    return transposed ? Transposed(matrix) : matrix;
  }

  struct Choice {
    FactoredLayer layer;
    Factors factors;
  };

  absl::Status Handle(const Group& group) {
    const ir::Weight& weight = graph_.weight(graph_.value(group.weight).weight);
    const int64_t elements = weight.size_bytes / 4;
    if (elements < std::max<int64_t>(options_.min_elements, 1)) {
      return absl::OkStatus();
    }
    const Node& node = graph_.node(group.nodes[0]);
    const LayerForm first = FormOf(node, group.weight);
    std::vector<LayerForm> forms{first};
    const Dims dims(weight.dims.begin(), weight.dims.end());
    if (first == LayerForm::kConvChannels && CanSplitSpatially(node, dims)) {
      forms.push_back(LayerForm::kConvSpatial);
    }
    absl::StatusOr<std::vector<float>> read = reader_.Floats(weight);
    if (graph_.drop_resident) graph_.drop_resident();
    if (!read.ok() || std::any_of(read->begin(), read->end(),
                                  [](float v) { return !std::isfinite(v); })) {
      return absl::InvalidArgumentError(absl::StrCat(
          "weight \"", Printable(weight.name), "\" ",
          read.ok()
              ? "has numbers that are not finite"
              : absl::StrCat("cannot be read: ", read.status().message())));
    }
    std::optional<Choice> best;
    for (const LayerForm form : forms) {
      std::optional<Choice> choice =
          Choose(*read, dims, form, TransposedInGemm(group.nodes[0]), node);
      if (choice &&
          (!best || choice->layer.bytes_after < best->layer.bytes_after)) {
        best = std::move(choice);
      }
    }
    if (!best) return absl::OkStatus();
    best->layer.weight = weight.name;
    best->layer.nodes = static_cast<int64_t>(group.nodes.size());
    if (apply_) Apply(group, *best);
    result_.layers.push_back(std::move(best->layer));
    return absl::OkStatus();
  }

  static bool CanSplitSpatially(const Node& node, const Dims& dims) {
    const std::string auto_pad =
        ir::StringAttribute(node, "auto_pad", "NOTSET");
    return dims.size() == 4 && dims[2] > 1 && dims[3] > 1 &&
           (auto_pad == "NOTSET" || auto_pad == "VALID");
  }

  // nullopt: nothing would be saved.
  std::optional<Choice> Choose(const std::vector<float>& elements,
                               const Dims& dims, LayerForm form,
                               bool transposed, const Node& node) {
    const Matrix matrix = ToMatrix(elements, dims, form, transposed);
    const int64_t full = std::min(matrix.rows, matrix.columns);
    result_.longest_side = std::max(result_.longest_side, full);
    if (full > options_.max_side) {
      ++result_.too_large;
      return std::nullopt;
    }
    const Spectrum spectrum = Spectrum::Of(matrix);
    int64_t rank = 0;
    if (options_.rank) {
      rank = *options_.rank;
    } else if (options_.max_error) {
      rank = spectrum.RankFor(1 - *options_.max_error * *options_.max_error);
    } else {
      rank = spectrum.RankFor(options_.energy);
    }
    if (rank > full || !Saves(matrix, dims, form, rank, node)) {
      ++result_.unchanged;
      return std::nullopt;
    }
    Choice choice;
    choice.factors = spectrum.Take(matrix, rank);
    choice.layer = {.dims = dims,
                    .form = form,
                    .rank = rank,
                    .full_rank = full,
                    .energy = spectrum.Energy(rank),
                    .error = RelativeError(matrix, choice.factors),
                    .bytes_before = matrix.rows * matrix.columns * 4,
                    .bytes_after = rank * (matrix.rows + matrix.columns) * 4};
    return choice;
  }

  // Both bytes and arithmetic must fall. For all forms but the spatial one the
  // two are in proportion; there the first part runs at each column of its
  // input, of which there are as many as the stride says.
  static bool Saves(const Matrix& matrix, const Dims& dims, LayerForm form,
                    int64_t rank, const Node& node) {
    const int64_t before = matrix.rows * matrix.columns;
    if (rank * (matrix.rows + matrix.columns) >= before) return false;
    if (form != LayerForm::kConvSpatial) return true;
    const int64_t stride = At(ir::IntsAttribute(node, "strides"), 1, 1);
    return rank * (matrix.rows * stride + dims[0] * dims[3]) < before;
  }

  static int64_t At(const std::vector<int64_t>* list, size_t index,
                    int64_t value) {
    return list == nullptr || index >= list->size() ? value : (*list)[index];
  }

  ValueId Weight(const Group& group, absl::string_view suffix,
                 const Matrix& matrix, const Dims& dims) {
    return builder_.Tensor(
        graph_.value(group.weight).block,
        absl::StrCat(graph_.value(group.weight).name, suffix),
        ElementType::kFloat, dims, Bytes(matrix));
  }

  void Apply(const Group& group, const Choice& choice) {
    const int64_t r = choice.layer.rank;
    const Dims& dims = choice.layer.dims;
    const Matrix& left = choice.factors.left;
    const Matrix& right = choice.factors.right;
    std::array<ValueId, 2> parts{};
    switch (choice.layer.form) {
      case LayerForm::kMatMul:
      case LayerForm::kGemm:
        parts = {Weight(group, "_left", left, {left.rows, r}),
                 Weight(group, "_right", right, {r, right.columns})};
        break;
      case LayerForm::kMatMulFirst:
        parts = {Weight(group, "_right", right, {r, right.columns}),
                 Weight(group, "_left", left, {left.rows, r})};
        break;
      case LayerForm::kConvChannels: {
        Dims first = dims;
        first[0] = r;
        Dims second(dims.size(), 1);
        second[0] = dims[0];
        second[1] = r;
        parts = {Weight(group, "_right", right, first),
                 Weight(group, "_left", left, second)};
        break;
      }
      case LayerForm::kConvSpatial:
        parts = {
            Weight(group, "_vertical", Transposed(left),
                   {r, dims[1], dims[2], 1}),
            Weight(group, "_horizontal", ToHorizontal(right, dims[0], dims[3]),
                   {dims[0], r, 1, dims[3]})};
        break;
    }
    for (NodeId node : group.nodes) Replace(node, choice.layer.form, parts, r);
    replaced_.push_back(group.weight);
  }

  void Replace(NodeId id, LayerForm form, const std::array<ValueId, 2>& parts,
               int64_t rank) {
    const Node node = graph_.node(id);
    const ir::Type type = graph_.value(node.results[0]).type;
    const std::string name = graph_.DisplayName(id);
    std::vector<Attribute> first;
    std::vector<Attribute> second;
    std::vector<ValueId> first_operands{node.operands[0], parts[0]};
    std::vector<ValueId> second_operands{ir::kNoValue, parts[1]};
    size_t axis = 1;  // of the rank in what is between, from the front
    if (form == LayerForm::kMatMul || form == LayerForm::kMatMulFirst) {
      axis = SIZE_MAX;
    }
    if (form == LayerForm::kMatMulFirst) {
      first_operands = {parts[0], node.operands[1]};
      second_operands = {parts[1], ir::kNoValue};
    }
    if (form == LayerForm::kGemm) {
      SplitGemm(node, &first, &second);
    } else if (form == LayerForm::kConvChannels) {
      first = node.attributes;
    } else if (form == LayerForm::kConvSpatial) {
      SplitConv(node, &first, &second);
    }
    // A bias belongs to the second part.
    if (node.operands.size() > 2 && node.operands[2] != ir::kNoValue) {
      second_operands.push_back(node.operands[2]);
    }
    const ValueId between = builder_.Op(
        node.block, node.op_type, first_operands,
        TypeBetween(type, form, axis, rank),
        absl::StrCat(graph_.value(node.results[0]).name, "_low_rank"), first);
    for (ValueId& operand : second_operands) {
      if (operand == ir::kNoValue) operand = between;
    }
    const NodeId last =
        builder_.Node(node.block, node.op_type, second_operands,
                      {node.results[0]}, absl::StrCat(name, "/second"), second);
    for (const NodeId made : {graph_.value(between).producer, last}) {
      graph_.mutable_node(made).opset = node.opset;
      new_nodes_[id].push_back(made);
    }
  }

  // Of what is between the two parts.
  static ir::Type TypeBetween(const ir::Type& result, LayerForm form,
                              size_t axis, int64_t rank) {
    ir::Type type = result;
    if (!type.shape || type.shape->empty()) return type;
    ir::Shape& shape = *type.shape;
    const size_t last = shape.size() - 1;
    if (form == LayerForm::kMatMul) axis = last;
    if (form == LayerForm::kMatMulFirst) {
      // A vector on the right has no columns.
      axis = shape.size() == 1 ? 0 : last - 1;
    }
    if (axis < shape.size()) shape[axis] = ir::Dim(rank);
    // The columns are those of the input.
    if (form == LayerForm::kConvSpatial) shape[last] = std::nullopt;
    return type;
  }

  static void SplitGemm(const Node& node, std::vector<Attribute>* first,
                        std::vector<Attribute>* second) {
    for (const Attribute& attribute : node.attributes) {
      if (attribute.name == "transA") first->push_back(attribute);
      if (attribute.name == "alpha" || attribute.name == "beta") {
        second->push_back(attribute);
      }
    }
  }

  // Rows go to the first part and columns to the second.
  static void SplitConv(const Node& node, std::vector<Attribute>* first,
                        std::vector<Attribute>* second) {
    for (const char* name : {"strides", "dilations"}) {
      const std::vector<int64_t>* list = ir::IntsAttribute(node, name);
      if (list == nullptr) continue;
      first->push_back({name, Dims{At(list, 0, 1), 1}});
      second->push_back({name, Dims{1, At(list, 1, 1)}});
    }
    const std::vector<int64_t>* pads = ir::IntsAttribute(node, "pads");
    if (pads == nullptr) return;
    first->push_back({"pads", Dims{At(pads, 0, 0), 0, At(pads, 2, 0), 0}});
    second->push_back({"pads", Dims{0, At(pads, 1, 0), 0, At(pads, 3, 0)}});
  }

  void Finish() {
    std::vector<std::vector<NodeId>> dead(graph_.num_blocks());
    for (size_t i = 0; i < graph_.num_blocks(); ++i) {
      const BlockId block{static_cast<uint32_t>(i)};
      std::vector<NodeId> schedule;
      for (NodeId id : graph_.block(block).nodes) {
        schedule.push_back(id);
        const auto it = new_nodes_.find(id);
        if (it == new_nodes_.end()) continue;
        schedule.insert(schedule.end(), it->second.begin(), it->second.end());
        dead[i].push_back(id);
      }
      graph_.mutable_block(block).nodes = std::move(schedule);
    }
    for (ValueId value : replaced_) {
      const ir::Value& v = graph_.value(value);
      if (v.kind == ir::ValueKind::kResult) {
        dead[Index(v.block)].push_back(v.producer);
      } else {
        std::erase(graph_.mutable_block(v.block).initializers, value);
      }
    }
    for (size_t i = 0; i < dead.size(); ++i) {
      graph_.EraseNodes(BlockId(static_cast<uint32_t>(i)), dead[i]);
    }
  }

  const FactorOptions& options_;
  Graph& graph_;
  Builder builder_;
  const bool apply_;
  ir::WeightReader reader_;
  FactorResult result_;
  std::map<NodeId, std::vector<NodeId>> new_nodes_;
  std::vector<ValueId> replaced_;
};

}  // namespace

absl::string_view Name(LayerForm form) {
  switch (form) {
    case LayerForm::kMatMul:
    case LayerForm::kMatMulFirst:
      return "MatMul";
    case LayerForm::kGemm:
      return "Gemm";
    case LayerForm::kConvChannels:
      return "Conv by channels";
    case LayerForm::kConvSpatial:
      return "Conv by rows and columns";
  }
  return "";
}

absl::StatusOr<FactorResult> FactorizeLayers(const FactorOptions& options,
                                             Graph* graph, bool apply) {
  return Factorizer(options, graph, apply).Run();
}

}  // namespace onnx_memopt::rewrite
