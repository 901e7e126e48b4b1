// How the rows of the op table are written, one expression a row:
//
//   Op("Relu").Cheap().InPlace(At(0)).Gradient(kNone, At(0))
//       .Flops(flops::PerResult<1>).Shape(shape_rules::SameAsFirst)
//
// Private to op_info.cc and the files of rows that it includes. Each row says
// one of Gradient, GradientUnknown and NoGradient; what a row does not say is
// the conservative value. Facts that are not obvious have a comment.
#ifndef ONNX_MEMOPT_LIB_IR_OP_ROW_H_
#define ONNX_MEMOPT_LIB_IR_OP_ROW_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/flops.h"
#include "onnx_memopt/ir/flow_rules.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::ir::op_table {

inline constexpr uint32_t kNone = 0;
inline constexpr uint32_t kAll = UINT32_MAX;

// The mask of these operands or results.
template <typename... Indices>
constexpr uint32_t At(Indices... indices) {
  return ((uint32_t{1} << indices) | ...);
}

class Row {
 public:
  constexpr Row(absl::string_view domain, absl::string_view name) {
    info_.domain = domain;
    info_.name = name;
  }

  // Result 0 is operand 0 under another shape.
  constexpr Row View() const {
    Row row = Free();
    row.info_.view_of = 0;
    return row;
  }
  constexpr Row Free() const {
    return Cost(RecomputeCost::kFree).Flops(flops::Zero);
  }
  constexpr Row Cheap() const { return Cost(RecomputeCost::kCheap); }
  constexpr Row Moderate() const { return Cost(RecomputeCost::kModerate); }
  constexpr Row Expensive() const { return Cost(RecomputeCost::kExpensive); }
  constexpr Row InPlace(uint32_t operands) const {
    Row row = *this;
    row.info_.in_place = operands;
    return row;
  }
  constexpr Row Random() const {
    Row row = *this;
    row.info_.random = true;
    return row;
  }
  // The versions of the op's domain from which on its schema takes 16-bit
  // tensors; 0: none does.
  constexpr Row Float16Since(int version) const {
    Row row = *this;
    row.info_.float16_since = version;
    return row;
  }
  constexpr Row Bfloat16Since(int version) const {
    Row row = *this;
    row.info_.bfloat16_since = version;
    return row;
  }
  // In a 16-bit model it still computes in float32.
  constexpr Row Float32(Float32Need need) const {
    Row row = *this;
    row.info_.needs_float32 = need;
    return row;
  }
  constexpr Row Float32Operands(uint32_t operands) const {
    Row row = *this;
    row.info_.float32_operands = operands;
    return row;
  }
  constexpr Row Float32Results(uint32_t results) const {
    Row row = *this;
    row.info_.float32_results = results;
    return row;
  }
  constexpr Row OptionalResults(uint32_t results) const {
    Row row = *this;
    row.info_.optional_results = results;
    return row;
  }
  constexpr Row Flops(FlopsRule rule) const {
    Row row = *this;
    row.info_.flops = rule;
    return row;
  }
  constexpr Row Shape(ShapeRule rule) const {
    Row row = *this;
    row.info_.shape = rule;
    return row;
  }
  constexpr Row Flow(FlowRule rule) const {
    Row row = *this;
    row.info_.flow = rule;
    return row;
  }
  // The gradient needs these operands and results, and no others.
  constexpr Row Gradient(uint32_t operands, uint32_t results = kNone) const {
    Row row = *this;
    row.info_.saved = {operands, results, /*known=*/true};
    return row;
  }
  // There is one, but nothing is claimed of what it needs.
  constexpr Row GradientUnknown() const { return *this; }
  // None, or zero wherever it exists (rounding).
  constexpr Row NoGradient() const {
    Row row = *this;
    row.info_.differentiable = false;
    row.info_.saved = {kNone, kNone, /*known=*/true};
    return row;
  }

  constexpr operator OpInfo() const { return info_; }  // NOLINT: a row is one

 private:
  constexpr Row Cost(RecomputeCost cost) const {
    Row row = *this;
    row.info_.recompute = cost;
    return row;
  }

  OpInfo info_;
};

inline constexpr absl::string_view kOnnx = "";
inline constexpr absl::string_view kMl = "ai.onnx.ml";
inline constexpr absl::string_view kPreview = "ai.onnx.preview";
inline constexpr absl::string_view kTraining = "ai.onnx.preview.training";
inline constexpr absl::string_view kMicrosoft = "com.microsoft";
inline constexpr absl::string_view kNchwc = "com.microsoft.nchwc";

constexpr Row Op(absl::string_view name) { return Row(kOnnx, name); }

// One result element from one operand element at the same place.
template <int64_t kFlops>
constexpr Row Unary(absl::string_view name) {
  return Op(name)
      .Cheap()
      .Flops(flops::PerResult<kFlops>)
      .Shape(shape_rules::SameAsFirst)
      .Flow(flow_rules::Elementwise);
}

// An activation: ONNX Runtime's CPU kernels of these compute in place.
template <int64_t kFlops>
constexpr Row Activation(absl::string_view name) {
  return Unary<kFlops>(name).InPlace(At(0));
}

// Moves elements, computes nothing.
constexpr Row Move(absl::string_view name, ShapeRule shape) {
  return Op(name).Cheap().Flops(flops::Zero).Shape(shape);
}

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_ROW_H_
