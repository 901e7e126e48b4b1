// Runs the library in a thread of its own, so that Ctrl-C works: Python handles
// signals in the thread that called, which waits here, without the GIL but for
// a moment every 50 ms.
//
//   absl::StatusOr<Report> report = RunInterruptible<Report>(
//       progress, [options](const ReportPhase& phase) mutable {
//         options.progress = phase;
//         return Optimize(path, options);
//       });
//
// `work` owns all that it uses: after Ctrl-C the call returns at once, and the
// work goes on until it next tells its phase, which is before it writes a file,
// and ends there. The interpreter waits for that when it exits.
#ifndef ONNX_MEMOPT_PYTHON_INTERRUPTIBLE_H_
#define ONNX_MEMOPT_PYTHON_INTERRUPTIBLE_H_

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace onnx_memopt::python {

using ReportPhase = std::function<void(const std::string& phase)>;

// `progress` is None or a Python callable; it is called with each phase, in the
// calling thread, and what it raises ends the work as Ctrl-C does.
void RunInThread(const nanobind::object& progress,
                 std::function<void(const ReportPhase&)> work);

template <typename T, typename Work>
absl::StatusOr<T> RunInterruptible(const nanobind::object& progress,
                                   Work work) {
  auto result = std::make_shared<std::optional<absl::StatusOr<T>>>();
  RunInThread(progress, [result, work = std::move(work)](
                            const ReportPhase& phase) mutable {
    result->emplace(work(phase));
  });
  return **std::move(result);
}

// Waits until no work is left that was interrupted. A second Ctrl-C ends the
// process.
void WaitForInterrupted();

}  // namespace onnx_memopt::python

#endif  // ONNX_MEMOPT_PYTHON_INTERRUPTIBLE_H_
