// The library's front door: read a model, analyse it, run the passes, write it.
//
//   absl::StatusOr<onnx_memopt::Report> report =
//       onnx_memopt::Optimize("model.onnx", {.output = "model.memopt.onnx"});
//   if (!report.ok()) std::cerr << report.status().message();
//
// Errors: kInvalidArgument for a file that is broken or that ONNX does not
// allow; kNotFound, kUnavailable for files that cannot be read or written;
// kOutOfRange for options that do not fit the model (an unknown dimension, an
// unknown pass). Messages are one line and begin with the file's path, except
// for those about options. Nothing is written unless all went well.
#ifndef ONNX_MEMOPT_OPTIMIZE_H_
#define ONNX_MEMOPT_OPTIMIZE_H_

#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/options.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt {

// `path` may be "-" for stdin.
absl::StatusOr<Report> Optimize(const std::string& path,
                                const Options& options);

// The same for a model in memory, a serialized ModelProto. External data is
// looked for in options.external_dir, or else in the current folder. If
// `output` is given and passes run, it is set to the rewritten model, which
// refers to external data as the given one does; options.output is not used.
absl::StatusOr<Report> OptimizeBytes(std::string model, const Options& options,
                                     std::string* output);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_OPTIMIZE_H_
