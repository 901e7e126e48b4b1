#include "io/constant_contents.h"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "onnx_memopt/io/tensor_values.h"

namespace onnx_memopt::io {
namespace {

using ir::Contents;
using ir::Dim;
using ir::Element;

std::shared_ptr<const Contents> Share(Contents contents) {
  if (contents.elements.size() > ir::kMaxContentsElements) return nullptr;
  return std::make_shared<const Contents>(std::move(contents));
}

Element ToElement(int64_t value) { return Element::Integer(Dim(value)); }
Element ToElement(double value) { return Element::Real(value); }
Element ToElement(float value) {
  return Element::Real(static_cast<double>(value));
}

template <typename T>
std::vector<Element> ToElements(const std::vector<T>& values) {
  std::vector<Element> elements;
  elements.reserve(values.size());
  for (const T& value : values) elements.push_back(ToElement(value));
  return elements;
}

template <typename T>
Contents List(const std::vector<T>& values) {
  return {.dims = {static_cast<int64_t>(values.size())},
          .elements = ToElements(values)};
}

}  // namespace

std::shared_ptr<const Contents> ContentsOf(const ir::Weight& weight) {
  Contents contents;
  contents.dims.assign(weight.dims.begin(), weight.dims.end());
  if (const auto integers = IntegerValues(weight)) {
    contents.elements = ToElements(*integers);
  } else if (const auto reals = RealValues(weight)) {
    contents.elements = ToElements(*reals);
  } else {
    return nullptr;
  }
  return Share(std::move(contents));
}

std::shared_ptr<const Contents> ContentsOf(const ir::AttributeValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    return Share({.elements = {ToElement(*integer)}});
  }
  if (const auto* real = std::get_if<float>(&value)) {
    return Share({.elements = {ToElement(*real)}});
  }
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    return Share(List(*integers));
  }
  if (const auto* reals = std::get_if<std::vector<float>>(&value)) {
    return Share(List(*reals));
  }
  return nullptr;
}

}  // namespace onnx_memopt::io
