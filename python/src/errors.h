// From absl::Status to Python's exceptions.
//
//   const Report report = ValueOrRaise(Optimize(path, options));
//
// kInvalidArgument is a ModelError, kOutOfRange an OptionError,
// kResourceExhausted a BudgetError (python/onnx_memopt/_errors.py), kNotFound
// FileNotFoundError, and anything else OSError.
#ifndef ONNX_MEMOPT_PYTHON_ERRORS_H_
#define ONNX_MEMOPT_PYTHON_ERRORS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace onnx_memopt::python {

// Needs the GIL; throws what makes nanobind give the exception to Python.
[[noreturn]] void Raise(const absl::Status& status);

template <typename T>
T ValueOrRaise(absl::StatusOr<T> value) {
  if (!value.ok()) Raise(value.status());
  return *std::move(value);
}

}  // namespace onnx_memopt::python

#endif  // ONNX_MEMOPT_PYTHON_ERRORS_H_
