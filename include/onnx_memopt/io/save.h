// Writes a model back: a skeleton, changed or not, with the payloads of the
// model that it came from.
//
// Contract: each file appears complete or not at all, and replaces what was
// there; the same input gives the same bytes. Payloads are copied file to file.
// Writing over the source, or over its external data, is safe. A message says
// which tensor or data file; the caller puts the output's name before it.
//
//   ASSIGN_OR_RETURN(SaveResult saved, Save(edited, *model, "out.onnx", {}));
//   // saved.files: {"out.onnx"}, or {"out.onnx.data", "out.onnx"}
#ifndef ONNX_MEMOPT_IO_SAVE_H_
#define ONNX_MEMOPT_IO_SAVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::io {

enum class ExternalData : uint8_t {
  // kReference where the output is written to the folder that external
  // locations are relative to, or there are none; else kCopy. kAll where the
  // protobuf would be 2 GiB or more.
  kAuto,
  // External files stay where they are. In another folder than the model's,
  // they must lie below it.
  kReference,
  // Every external range in use is copied to OUTPUT.data beside the output,
  // equal ranges once.
  kCopy,
  // As kCopy, and initializers of 1 KiB and more move there too.
  kAll,
};

struct SaveOptions {
  ExternalData external_data = ExternalData::kAuto;
  // A protobuf of more bytes is not written. Smaller only in tests.
  int64_t max_protobuf_bytes = kMaxProtobufBytes;
  // What Export left out of the skeleton: it is made while it is written, piece
  // by piece. kAuto puts what is made from external data into the data file.
  absl::Span<const ir::Weight> made = {};
  // Gives back what reading those has made resident (Graph::drop_resident);
  // after each of them. May be empty.
  std::function<void()> drop_resident = {};
};

struct SaveResult {
  std::vector<std::string> files;  // as they were written; not for "-"
  int64_t model_bytes = 0;
  int64_t data_bytes = 0;
};

// `skeleton` is source.proto() or an edited copy of it. `path` ends in .onnx,
// or in .onnxtxt for ONNX's text syntax (models without large payloads), or is
// "-": the binary format on standard output, without a data file.
absl::StatusOr<SaveResult> Save(const onnx::ModelProto& skeleton,
                                const LoadedModel& source,
                                const std::string& path,
                                const SaveOptions& options);

// The same in memory. External data stays where it is, by the same locations.
absl::StatusOr<std::string> SaveToString(
    const onnx::ModelProto& skeleton, const LoadedModel& source,
    absl::Span<const ir::Weight> made = {});

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_SAVE_H_
