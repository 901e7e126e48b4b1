// Text of a model or a message as Python's: names in models may be any bytes,
// and what is not UTF-8 becomes U+FFFD, as in the JSON report.
#ifndef ONNX_MEMOPT_PYTHON_TEXT_H_
#define ONNX_MEMOPT_PYTHON_TEXT_H_

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>
#include <vector>

namespace onnx_memopt::python {

inline nanobind::str ToPython(std::string_view text) {
  PyObject* decoded = PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw nanobind::python_error();
  return nanobind::steal<nanobind::str>(decoded);
}

using StrList = nanobind::typed<nanobind::list, nanobind::str>;

inline StrList ToPython(const std::vector<std::string>& texts) {
  nanobind::list list;
  for (const std::string& text : texts) list.append(ToPython(text));
  return nanobind::borrow<StrList>(list);
}

// A getter for a property that is text, or a list of texts.
template <typename Class, typename Field>
auto Text(Field Class::* field) {
  return [field](const Class& object) { return ToPython(object.*field); };
}

}  // namespace onnx_memopt::python

#endif  // ONNX_MEMOPT_PYTHON_TEXT_H_
