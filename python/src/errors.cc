#include "errors.h"

#include <nanobind/nanobind.h>

#include "text.h"

namespace onnx_memopt::python {

namespace nb = nanobind;

void Raise(const absl::Status& status) {
  const auto own = [](const char* name) -> nb::object {
    return nb::module_::import_("onnx_memopt._errors").attr(name);
  };
  nb::object type;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      type = own("ModelError");
      break;
    case absl::StatusCode::kOutOfRange:
      type = own("OptionError");
      break;
    case absl::StatusCode::kResourceExhausted:
      type = own("BudgetError");
      break;
    case absl::StatusCode::kNotFound:
      type = nb::borrow(PyExc_FileNotFoundError);
      break;
    default:
      type = nb::borrow(PyExc_OSError);
      break;
  }
  const absl::string_view message = status.message();
  PyErr_SetObject(type.ptr(), ToPython({message.data(), message.size()}).ptr());
  throw nb::python_error();
}

}  // namespace onnx_memopt::python
