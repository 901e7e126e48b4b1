// The elements of a small tensor, as far as they are known before the run: what
// Shape, Gather, Concat and arithmetic compute on the way to a Reshape. An
// integer element is a Dim, so it may be symbolic; a floating-point element is
// a number, or, where a symbolic integer was cast, that integer. Of sequences
// only the empty one is known: it has contents of one dim, 0.
//
//   Contents c{{}, {Element::Integer(batch), Element::Integer(768)}};
#ifndef ONNX_MEMOPT_IR_CONTENTS_H_
#define ONNX_MEMOPT_IR_CONTENTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/dim.h"

namespace onnx_memopt::ir {

// Shape arithmetic is small; larger tensors are data and are not followed.
inline constexpr int64_t kMaxContentsElements = 1024;

struct Element {
  // Of integer and bool tensors; of a floating-point tensor only if symbolic.
  std::optional<Dim> integer;
  std::optional<double> real;  // of floating-point tensors

  static Element Integer(Dim value) { return {std::move(value), std::nullopt}; }
  static Element Real(double value) { return {std::nullopt, value}; }
  bool known() const { return integer.has_value() || real.has_value(); }
};

struct Contents {
  llvm::SmallVector<int64_t, 2> dims;  // empty for a scalar
  std::vector<Element> elements;       // row-major, as many as the shape says

  friend bool operator==(const Contents& a, const Contents& b);
};

// The only element, where that is a known integer or bool.
std::optional<int64_t> OnlyInteger(const Contents* contents);

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_CONTENTS_H_
