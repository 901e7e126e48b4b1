// Gradients of ops that move elements by rules of their own: shapes, slices,
// joins, repetitions. The gradient moves them back.
#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grad/rule_list.h"
#include "grad/scatter.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

// The extent of operand or result `value` along `axis`, as a list of one.
ValueId Extent(Emitter& e, ValueId value, int64_t axis) {
  const ir::Shape* shape = e.shape(value);
  if (shape != nullptr && static_cast<size_t>(axis) < shape->size()) {
    const std::optional<ir::Dim> dim = (*shape)[static_cast<size_t>(axis)];
    if (dim) {
      const std::optional<ValueId> extent = e.DimValue(*dim);
      if (extent) return *extent;
    }
  }
  return e.Slice(e.Op("Shape", {value}), {0}, {axis}, {axis + 1});
}

std::optional<int64_t> StaticExtent(const ir::Shape* shape, int64_t axis) {
  if (shape == nullptr) return std::nullopt;
  const std::optional<ir::Dim>& dim = (*shape)[static_cast<size_t>(axis)];
  if (!dim || !dim->is_constant()) return std::nullopt;
  return dim->constant();
}

// The gradient of result i, zeros where it has none.
ValueId GradientOrZeros(RuleContext& c, size_t i) {
  if (c.dy(i) != ir::kNoValue) return c.dy(i);
  const ValueId result = c.y_id(i);
  return c.e().Zeros(c.x_type().element, c.e().ShapeOf(result));
}

// A matrix whose gradient is a product, as of a weight that a MatMul reads
// transposed: (A B)' = B' A', without the gradient in between. kNoValue where
// something else reads that gradient, too.
ValueId TransposedProduct(RuleContext& c) {
  const ir::Graph& graph = c.e().graph();
  const ir::NodeId producer = graph.value(c.dy()).producer;
  if (producer == ir::kNoNode) return ir::kNoValue;
  const ir::Node& gemm = graph.node(producer);
  if (gemm.op_type != "Gemm" || gemm.operands.size() != 2) return ir::kNoValue;
  int readers = 0;
  for (const ir::NodeId id : graph.block(c.node().block).nodes) {
    const ir::Node& reader = graph.node(id);
    if (std::count(reader.operands.begin(), reader.operands.end(), c.y_id()) ==
        0) {
      continue;
    }
    if (reader.op_type != "MatMul" && reader.op_type != "Gemm") {
      return ir::kNoValue;
    }
    ++readers;
  }
  if (readers != 1) return ir::kNoValue;
  return c.e().Op("Gemm", {gemm.operands[1], gemm.operands[0]},
                  {Attr("alpha", ir::FloatAttribute(gemm, "alpha", 1)),
                   Attr("transA", 1 - ir::IntAttribute(gemm, "transB", 0)),
                   Attr("transB", 1 - ir::IntAttribute(gemm, "transA", 0))});
}

}  // namespace

// Reshape, Flatten, Squeeze, Unsqueeze.
absl::Status Reshape(RuleContext& c) {
  return c.Give(0, c.e().ReshapeLike(c.dy(), c.x_id()));
}

absl::Status Transpose(RuleContext& c) {
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  Numbers perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (const Numbers* given = c.Ints("perm")) perm = *given;
  Numbers inverse(rank);
  if (perm.size() != rank) return c.Error("perm has another rank");
  for (size_t i = 0; i < rank; ++i) {
    if (perm[i] < 0 || perm[i] >= static_cast<int64_t>(rank)) {
      return c.Error("perm is out of range");
    }
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  if (const ValueId product = TransposedProduct(c); product != ir::kNoValue) {
    return c.Give(0, product);
  }
  return c.Give(0, c.e().Transpose(c.dy(), inverse));
}

absl::Status Expand(RuleContext& c) { return c.GiveBroadcast(0, c.dy()); }

absl::Status Tile(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers shape, c.StaticShape());
  ASSIGN_OR_RETURN(const Numbers result, c.StaticResultShape());
  // [a, b] repeated r and s times is [r * a, s * b]: sum over r and s.
  Numbers dims;
  Emitter::Axes repeats;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return c.Error("an operand without elements");
    repeats.push_back(static_cast<int64_t>(dims.size()));
    dims.push_back(result[i] / shape[i]);
    dims.push_back(shape[i]);
  }
  return c.Give(0, e.ReduceSum(e.Reshape(c.dy(), dims), repeats,
                               /*keep_dims=*/false));
}

absl::Status Concat(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), rank));
  // One Split where all parts are wanted; else only the parts that are.
  bool all = true;
  for (size_t i = 0; i < c.num_operands(); ++i) all = all && c.wants(i);
  std::vector<ValueId> extents;
  extents.reserve(c.num_operands());
  for (size_t i = 0; i < c.num_operands(); ++i) {
    extents.push_back(Extent(e, c.x_id(i), axis));
  }
  if (all && c.num_operands() > 1) {
    const std::vector<ValueId> parts =
        e.Ops("Split", {c.dy(), e.Concat(extents, 0)}, c.num_operands(),
              {Attr("axis", axis)});
    for (size_t i = 0; i < parts.size(); ++i) {
      RETURN_IF_ERROR(c.Give(i, parts[i]));
    }
    return absl::OkStatus();
  }
  ValueId start = e.Ints({0});
  for (size_t i = 0; i < c.num_operands(); ++i) {
    const ValueId end = e.Add(start, extents[i]);
    if (c.wants(i)) {
      RETURN_IF_ERROR(
          c.Give(i, e.Op("Slice", {c.dy(), start, end, e.Ints({axis})})));
    }
    start = end;
  }
  return absl::OkStatus();
}

absl::Status Split(RuleContext& c) {
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), rank));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.node().results.size(); ++i) {
    if (!c.has_result(i)) return c.Error("one of its results is left out");
    parts.push_back(GradientOrZeros(c, i));
  }
  return c.Give(0, c.e().Concat(parts, axis));
}

absl::Status Slice(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const ir::Shape* shape = c.x_shape();
  const auto known = [&](size_t operand) {
    return !c.has(operand) || c.List("", operand).ok();
  };
  Numbers axes;
  if (c.has(3)) {
    ASSIGN_OR_RETURN(const Numbers given, c.ListOr(3, {}));
    for (int64_t axis : given) {
      ASSIGN_OR_RETURN(const int64_t positive, c.Axis(axis, rank));
      axes.push_back(positive);
    }
  } else {
    const auto& starts = e.type(c.x_id(1)).shape;
    const auto count = starts && !starts->empty() ? StaticExtent(&*starts, 0)
                                                  : std::optional<int64_t>();
    if (!count || *count > static_cast<int64_t>(rank)) {
      return c.Error("how many axes it slices is unknown");
    }
    for (int64_t i = 0; i < *count; ++i) axes.push_back(i);
  }
  // Step 1 and numbers everywhere: zeros around.
  bool simple = known(1) && known(2) && known(4);
  Numbers pads(2 * rank, 0);
  if (simple) {
    ASSIGN_OR_RETURN(const Numbers starts, c.ListOr(1, {}));
    ASSIGN_OR_RETURN(const Numbers ends, c.ListOr(2, {}));
    ASSIGN_OR_RETURN(const Numbers steps, c.ListOr(4, Numbers(axes.size(), 1)));
    if (starts.size() != axes.size() || ends.size() != axes.size() ||
        steps.size() != axes.size()) {
      return c.Error("starts, ends and axes are of different lengths");
    }
    for (size_t i = 0; simple && i < axes.size(); ++i) {
      const std::optional<int64_t> extent = StaticExtent(shape, axes[i]);
      simple = extent && steps[i] == 1;
      if (!simple) break;
      int64_t start = starts[i];
      int64_t end = ends[i];
      if (start < 0) start += *extent;
      if (end < 0) end += *extent;
      start = std::clamp<int64_t>(start, 0, *extent);
      end = std::clamp<int64_t>(end, start, *extent);
      const auto at = static_cast<size_t>(axes[i]);
      pads[at] += start;
      pads[at + rank] += *extent - end;
    }
  }
  if (simple) return c.Give(0, e.Pad(c.dy(), pads));
  // Else the positions are sliced too, axis by axis, and elements go back to
  // where they came from.
  ValueId gradient = c.dy();
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto at = [&](size_t operand) {
      const auto index = static_cast<int64_t>(i);
      return e.Slice(c.x(operand), {0}, {index}, {index + 1});
    };
    const ValueId extent = Extent(e, c.x_id(), axes[i]);
    const ValueId all =
        e.Op("Range", {e.Int(0), e.Squeeze(extent, {0}), e.Int(1)});
    std::vector<ValueId> operands = {all, at(1), at(2), e.Ints({0})};
    for (size_t k = 1; k <= 2; ++k) {
      operands[k] = e.Cast(operands[k], ir::ElementType::kInt64);
    }
    if (c.has(4)) {
      operands.push_back(e.Cast(at(4), ir::ElementType::kInt64));
    }
    gradient = ScatterAlongAxis(e, gradient, axes[i], e.Op("Slice", operands),
                                extent, rank);
  }
  return c.Give(0, gradient);
}

absl::Status Pad(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const Numbers* stated = c.Ints("pads");
  ASSIGN_OR_RETURN(const Numbers pads,
                   stated != nullptr ? *stated : c.ListOr(1, {}));
  Numbers all(rank);
  std::iota(all.begin(), all.end(), 0);
  ASSIGN_OR_RETURN(const Numbers axes, c.ListOr(3, std::move(all)));
  if (pads.size() != 2 * axes.size()) {
    return c.Error("pads and axes are of different lengths");
  }
  Numbers begin(rank, 0);
  Numbers end(rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t axis, c.Axis(axes[i], rank));
    begin[static_cast<size_t>(axis)] = pads[i];
    end[static_cast<size_t>(axis)] = pads[i + axes.size()];
  }
  const std::string mode = c.String("mode", "constant");
  if (c.wants(2)) return c.Error("the padding value has no gradient here");
  ValueId gradient = c.dy();
  if (mode == "constant") {
    Numbers sliced;
    Numbers starts;
    Numbers ends;
    Numbers back(2 * rank, 0);  // what a negative pad cut off
    for (size_t i = 0; i < rank; ++i) {
      if (begin[i] > 0 || end[i] > 0) {
        sliced.push_back(static_cast<int64_t>(i));
        starts.push_back(std::max<int64_t>(begin[i], 0));
        ends.push_back(end[i] > 0 ? -end[i] : INT64_MAX);
      }
      back[i] = std::max<int64_t>(-begin[i], 0);
      back[i + rank] = std::max<int64_t>(-end[i], 0);
    }
    if (!sliced.empty()) gradient = e.Slice(gradient, sliced, starts, ends);
    return c.Give(0, e.Pad(gradient, back));
  }
  // The other modes read elements again: pad the positions in the same way.
  for (size_t i = 0; i < rank; ++i) {
    if (begin[i] == 0 && end[i] == 0) continue;
    const auto axis = static_cast<int64_t>(i);
    const ValueId extent = Extent(e, c.x_id(), axis);
    const ValueId positions_before =
        e.Op("Range", {e.Int(0), e.Squeeze(extent, {0}), e.Int(1)});
    const ValueId positions =
        e.Op("Pad", {positions_before, e.Ints({begin[i], end[i]})},
             {Attr("mode", mode)});
    gradient = ScatterAlongAxis(e, gradient, axis, positions, extent, rank);
  }
  return c.Give(0, gradient);
}

absl::Status Trilu(RuleContext& c) {
  std::vector<ValueId> operands = {c.dy()};
  if (c.has(1)) operands.push_back(c.x(1));
  return c.Give(
      0, c.e().Op("Trilu", operands, {Attr("upper", c.Int("upper", 1))}));
}

// DepthToSpace: back by SpaceToDepth, which knows one order of channels only:
// [block, block, c], where mode CRD has [c, block, block].
absl::Status DepthToSpace(RuleContext& c) {
  Emitter& e = c.e();
  const int64_t block = c.Int("blocksize", 1);
  if (block < 1 || block > 1024) return c.Error("its block is out of range");
  const ValueId moved =
      e.Op("SpaceToDepth", {c.dy()}, {Attr("blocksize", block)});
  if (c.String("mode", "DCR") != "CRD") return c.Give(0, moved);
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const auto channels =
      rank == 4 ? StaticExtent(c.x_shape(), 1) : std::optional<int64_t>();
  if (!channels) return c.Error("how many channels it has is unknown");
  const ValueId parts = e.Reshape(
      moved, Numbers{0, block * block, *channels / (block * block), -1});
  return c.Give(
      0, e.Reshape(e.Transpose(parts, {0, 2, 1, 3}), e.ShapeOf(c.x_id())));
}

absl::Status SpaceToDepth(RuleContext& c) {
  return c.Give(0, c.e().Op("DepthToSpace", {c.dy()},
                            {Attr("blocksize", c.Int("blocksize", 1)),
                             Attr("mode", c.String("mode", "DCR"))}));
}

}  // namespace onnx_memopt::grad::rules
