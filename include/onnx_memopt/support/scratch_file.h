// Bytes that are too many to be held in memory: in a file without a name, and
// mapped back. Whatever becomes of the process, nothing is left behind.
//
// Contract: views stay good as long as the object lives. Messages begin with
// the folder.
//
//   ASSIGN_OR_RETURN(ScratchFile file, ScratchFile::Create());
//   ASSIGN_OR_RETURN(absl::string_view bytes, file.Append(large));
//   Read(bytes);
//   file.DropResident();  // they come from the file when they are next read
#ifndef ONNX_MEMOPT_SUPPORT_SCRATCH_FILE_H_
#define ONNX_MEMOPT_SUPPORT_SCRATCH_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/unique_fd.h"

namespace onnx_memopt {

class ScratchFile {
 public:
  // In the folder that the environment variable TMPDIR names, else in /var/tmp:
  // /tmp is memory on many systems.
  static absl::StatusOr<ScratchFile> Create();

  ScratchFile(ScratchFile&&) noexcept = default;
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile();

  // Not for no bytes at all.
  absl::StatusOr<absl::string_view> Append(absl::string_view bytes);
  void DropResident() const;

 private:
  ScratchFile(UniqueFd fd, std::string folder)
      : fd_(std::move(fd)), folder_(std::move(folder)) {}

  UniqueFd fd_;
  std::string folder_;
  int64_t size_bytes_ = 0;
  std::vector<absl::string_view> mapped_;
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_SCRATCH_FILE_H_
