#include "onnx-memopt/write_json.h"

#include <iostream>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/atomic_file.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::cli {

absl::Status WriteJson(const std::string& path, const std::string& json) {
  if (path == "-") {
    std::cout << json << std::flush;
    return std::cout.good()
               ? absl::OkStatus()
               : absl::UnavailableError("stdout: the report was not written");
  }
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  absl::Status status = file.status();
  if (status.ok()) status = file->writer().Append(json);
  if (status.ok()) status = file->Commit();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(Printable(path), ": ", status.message()));
}

}  // namespace onnx_memopt::cli
