// What a script may demand of a model and of its rewrite.
//
//   for (const std::string& reason :
//        FailedGates(report, {.max_peak_bytes = int64_t{2} << 30})) {
//     std::cerr << "gate failed: " << reason << "\n";
//   }
#ifndef ONNX_MEMOPT_REPORT_GATES_H_
#define ONNX_MEMOPT_REPORT_GATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onnx_memopt/report.h"

namespace onnx_memopt {

struct Gates {
  // Weights, inputs and packed activations take no more, after the rewrite if
  // there is one. A report that is not complete fails: its peak is not known.
  std::optional<int64_t> max_peak_bytes;
  // The rewrite has neither a higher peak nor more bytes of weights.
  bool fail_on_growth = false;
};

// One line for each thing that is not as demanded; none if all is well. With a
// sweep, every point of it is held to the gates. A budget that the report says
// was not met is a failed gate too.
std::vector<std::string> FailedGates(const Report& report, const Gates& gates);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_GATES_H_
