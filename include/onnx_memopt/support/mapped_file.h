// A regular file mapped read-only, and a reader for pipes.
//
// Contract: the bytes stay valid and do not change as long as the object lives
// and nobody truncates or rewrites the file in place; replacing it by a rename,
// as AtomicFile does, is harmless. Messages do not name the file: the caller
// says "FILE: reason".
//
//   ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open("model.onnx"));
//   Parse(file.bytes());
#ifndef ONNX_MEMOPT_SUPPORT_MAPPED_FILE_H_
#define ONNX_MEMOPT_SUPPORT_MAPPED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/unique_fd.h"

namespace onnx_memopt {

class MappedFile {
 public:
  // Refuses what is missing, a directory, unreadable, no regular file, or
  // empty. A file larger than `max_bytes` gives kOutOfRange.
  static absl::StatusOr<MappedFile> Open(const std::string& path,
                                         int64_t max_bytes = INT64_MAX);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  absl::string_view bytes() const { return bytes_; }
  // Open for reading as long as the object lives.
  int fd() const { return fd_.get(); }
  // Takes the pages out of this process's resident memory. They come back from
  // the page cache when they are read.
  void DropResident() const;

 private:
  MappedFile(UniqueFd fd, absl::string_view bytes)
      : fd_(std::move(fd)), bytes_(bytes) {}

  UniqueFd fd_;
  absl::string_view bytes_;
};

// Everything up to the end of `fd`; more than `max_bytes` gives kOutOfRange.
absl::StatusOr<std::string> ReadToEnd(int fd, int64_t max_bytes);

// The message of a failed system call: "no such file", "permission denied",
// "is a directory", else what the C library says, in lower case.
std::string ErrnoMessage(int error);
absl::Status ErrnoStatus(int error);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_MAPPED_FILE_H_
