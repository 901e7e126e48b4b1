#include "onnx_memopt/ir/contents.h"

#include <cmath>

namespace onnx_memopt::ir {
namespace {

bool SameReal(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  // Not a number is the same contents as not a number.
  return *a == *b || (std::isnan(*a) && std::isnan(*b));
}

}  // namespace

bool operator==(const Contents& a, const Contents& b) {
  if (a.dims != b.dims || a.elements.size() != b.elements.size()) return false;
  for (size_t i = 0; i < a.elements.size(); ++i) {
    const Element& x = a.elements[i];
    const Element& y = b.elements[i];
    if (x.integer != y.integer || !SameReal(x.real, y.real)) return false;
  }
  return true;
}

std::optional<int64_t> OnlyInteger(const Contents* contents) {
  if (contents == nullptr || contents->elements.size() != 1) {
    return std::nullopt;
  }
  const std::optional<Dim>& integer = contents->elements.front().integer;
  if (!integer || !integer->is_constant()) return std::nullopt;
  return integer->constant();
}

}  // namespace onnx_memopt::ir
