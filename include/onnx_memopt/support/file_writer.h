// Buffered sequential writing to a file descriptor, with copies from other
// files that never pass through this process where the kernel can help.
//
//   FileWriter out(STDOUT_FILENO);
//   RETURN_IF_ERROR(out.Append(header));
//   RETURN_IF_ERROR(out.CopyFrom(source_fd, /*offset=*/4096, size_bytes));
//   RETURN_IF_ERROR(out.Flush());
#ifndef ONNX_MEMOPT_SUPPORT_FILE_WRITER_H_
#define ONNX_MEMOPT_SUPPORT_FILE_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt {

class FileWriter {
 public:
  // Does not own `fd`.
  explicit FileWriter(int fd) : fd_(fd) {}

  absl::Status Append(absl::string_view bytes);
  // `size` bytes of another file from `offset` on; kDataLoss if it is shorter.
  absl::Status CopyFrom(int source_fd, int64_t offset, int64_t size);
  // Zeros up to the next multiple of `alignment`, which is positive.
  absl::Status PadTo(int64_t alignment);
  // Hands what is buffered to the kernel.
  absl::Status Flush();

  // Bytes written so far, buffered ones included.
  int64_t position() const { return position_; }

 private:
  absl::Status WriteAll(absl::string_view bytes);
  absl::Status CopyThroughBuffer(int source_fd, int64_t offset, int64_t size);

  int fd_;
  int64_t position_ = 0;
  std::string buffer_;
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_FILE_WRITER_H_
