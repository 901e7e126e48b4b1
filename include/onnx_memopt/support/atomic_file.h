// A file that appears under its name complete or not at all: it is written
// under a temporary name in the same folder, and renamed by Commit. Without
// Commit nothing is left behind.
//
// Contract: what was at the destination stays readable for those who have it
// open. A destination that exists must be a regular file or a symbolic link to
// one; a link is replaced, not followed. Messages do not name the file.
//
//   ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create("out.onnx"));
//   RETURN_IF_ERROR(out.writer().Append(bytes));
//   RETURN_IF_ERROR(out.Commit());
#ifndef ONNX_MEMOPT_SUPPORT_ATOMIC_FILE_H_
#define ONNX_MEMOPT_SUPPORT_ATOMIC_FILE_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/support/file_writer.h"
#include "onnx_memopt/support/unique_fd.h"

namespace onnx_memopt {

class AtomicFile {
 public:
  // The new file has the permissions of the one that it replaces, else those
  // that any new file of this process gets.
  static absl::StatusOr<AtomicFile> Create(const std::string& path);

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  FileWriter& writer() { return *writer_; }

  absl::StatusOr<mode_t> Mode() const;
  absl::Status SetMode(mode_t mode);

  // Everything written is in the temporary file once this succeeds: running
  // out of space shows here and not in Commit.
  absl::Status Finish();
  // Finish, then rename.
  absl::Status Commit();

 private:
  AtomicFile(UniqueFd fd, std::string path, std::string temporary);

  UniqueFd fd_;
  std::string path_;
  std::string temporary_;  // empty once committed, or moved from
  std::unique_ptr<FileWriter> writer_;
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_ATOMIC_FILE_H_
