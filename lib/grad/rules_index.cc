// Gradients of ops that read or write at positions that are data.
#include <optional>
#include <string>
#include <vector>

#include "grad/rule_list.h"
#include "grad/scatter.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

// Positions from the end made positions from the start; int64.
ValueId FromStart(Emitter& e, ValueId indices, ValueId extent) {
  const ValueId wide = e.Cast(indices, ir::ElementType::kInt64);
  const ValueId negative = e.Op("Less", {wide, e.Int(0)});
  return e.Where(negative, e.Add(wide, extent), wide);
}

ValueId Part(Emitter& e, ValueId list, int64_t begin, int64_t end) {
  return e.Slice(list, {0}, {begin}, {end});
}

absl::Status CheckReduction(RuleContext& c) {
  const std::string reduction = c.String("reduction", "none");
  if (reduction == "none" || reduction == "add") return absl::OkStatus();
  return c.Error(
      "the gradient of reductions other than \"none\" and \"add\" is not "
      "known");
}

}  // namespace

absl::Status Gather(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank(0));
  ASSIGN_OR_RETURN(const size_t index_rank, c.Rank(1));
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), rank));
  const ir::Shape shape = *c.x_shape();
  const auto at = static_cast<size_t>(axis);
  const std::optional<ir::Dim>& extent = shape[at];
  // One known position, as an exporter takes one of several parts: zeros
  // around it.
  const std::optional<int64_t> known =
      ir::OnlyInteger(e.graph().value(c.x_id(1)).contents.get());
  if (known && extent && extent->is_constant() && index_rank <= 1) {
    int64_t position = *known;
    if (position < 0) position += extent->constant();
    Numbers pads(2 * rank, 0);
    pads[at] = position;
    pads[at + rank] = extent->constant() - position - 1;
    const ValueId dy = index_rank == 0 ? e.Unsqueeze(c.dy(), {axis}) : c.dy();
    return c.Give(0, e.Pad(dy, pads));
  }
  // The axes of the indices become one.
  const ValueId dims = e.ShapeOf(c.x_id());
  ValueId dy = c.dy();
  if (index_rank == 0) dy = e.Unsqueeze(dy, {axis});
  if (index_rank > 1) {
    const auto n = static_cast<int64_t>(rank);
    std::vector<ValueId> parts;
    if (axis > 0) parts.push_back(Part(e, dims, 0, axis));
    parts.push_back(e.Ints({-1}));
    if (axis + 1 < n) parts.push_back(Part(e, dims, axis + 1, n));
    const ir::Type type = e.type(c.y_id());
    dy = e.Reshape(dy, e.Concat(parts, 0));
  }
  const ValueId size = Part(e, dims, axis, axis + 1);
  ValueId positions = c.x(1);
  if (index_rank != 1) positions = e.Reshape(positions, Numbers{-1});
  positions = e.Cast(positions, ir::ElementType::kInt64);
  return c.Give(0, ScatterAlongAxis(e, dy, axis, positions, size, rank));
}

absl::Status GatherElements(RuleContext& c) {
  ASSIGN_OR_RETURN(const size_t rank, c.Rank(0));
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), rank));
  return c.Give(
      0, ScatterAdd(c.e(), c.e().ShapeOf(c.x_id()), c.x(1), c.dy(), axis));
}

// The positions are turned into offsets of the flattened operand.
absl::Status GatherNd(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers shape, c.StaticShape(0));
  ASSIGN_OR_RETURN(const Numbers indices, c.StaticShape(1));
  const auto batch = static_cast<size_t>(c.Int("batch_dims", 0));
  if (indices.empty() || batch >= indices.size() || batch >= shape.size()) {
    return c.Error("its ranks do not fit");
  }
  const auto depth = static_cast<size_t>(indices.back());
  if (batch + depth > shape.size()) return c.Error("its ranks do not fit");
  Numbers strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * shape[i + 1];
  }
  int64_t slice = 1;  // elements that one position stands for
  for (size_t i = batch + depth; i < shape.size(); ++i) slice *= shape[i];
  const Numbers extents(shape.begin() + static_cast<int64_t>(batch),
                        shape.begin() + static_cast<int64_t>(batch + depth));
  const Numbers weights(strides.begin() + static_cast<int64_t>(batch),
                        strides.begin() + static_cast<int64_t>(batch + depth));
  const ValueId positions = FromStart(e, c.x(1), e.Ints(extents));
  ValueId offsets =
      e.ReduceSum(e.Mul(positions, e.Ints(weights)), {-1}, /*keep_dims=*/false);
  // Each batch begins further on.
  int64_t batches = 1;
  for (size_t i = 0; i < batch; ++i) batches *= shape[i];
  if (batch > 0) {
    int64_t of_batch = 1;
    for (size_t i = batch; i < shape.size(); ++i) of_batch *= shape[i];
    Numbers begins;
    for (int64_t b = 0; b < batches; ++b) begins.push_back(b * of_batch);
    offsets = e.Add(e.Reshape(offsets, Numbers{batches, -1}),
                    e.Reshape(e.Ints(begins), Numbers{batches, 1}));
  }
  offsets = e.Reshape(offsets, Numbers{-1, 1});
  if (slice > 1) {
    const ValueId within = e.Op("Range", {e.Int(0), e.Int(slice), e.Int(1)});
    offsets = e.Add(offsets, within);
  }
  const ValueId dims = e.Ints(shape);
  const ValueId count =
      e.Op("ReduceProd", {dims}, {Attr("keepdims", int64_t{1})});
  const ValueId flat = ScatterAdd(e, count, e.Reshape(offsets, Numbers{-1}),
                                  e.Reshape(c.dy(), Numbers{-1}), 0);
  return c.Give(0, e.Reshape(flat, dims));
}

absl::Status ScatterElements(RuleContext& c) {
  Emitter& e = c.e();
  RETURN_IF_ERROR(CheckReduction(c));
  ASSIGN_OR_RETURN(const size_t rank, c.Rank(0));
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", 0), rank));
  if (c.wants(0)) {
    ValueId dx = c.dy();
    if (c.String("reduction", "none") == "none") {
      const ValueId zeros = e.Zeros(c.x_type().element, e.ShapeOf(c.x_id(2)));
      dx = e.Op("ScatterElements", {dx, c.x(1), zeros}, {Attr("axis", axis)});
    }
    RETURN_IF_ERROR(c.Give(0, dx));
  }
  if (!c.wants(2)) return absl::OkStatus();
  return c.Give(2,
                e.Op("GatherElements", {c.dy(), c.x(1)}, {Attr("axis", axis)}));
}

absl::Status ScatterNd(RuleContext& c) {
  Emitter& e = c.e();
  RETURN_IF_ERROR(CheckReduction(c));
  if (c.wants(0)) {
    ValueId dx = c.dy();
    if (c.String("reduction", "none") == "none") {
      const ValueId zeros = e.Zeros(c.x_type().element, e.ShapeOf(c.x_id(2)));
      dx = e.Op("ScatterND", {dx, c.x(1), zeros});
    }
    RETURN_IF_ERROR(c.Give(0, dx));
  }
  if (!c.wants(2)) return absl::OkStatus();
  return c.Give(2, e.Op("GatherND", {c.dy(), c.x(1)}));
}

}  // namespace onnx_memopt::grad::rules
