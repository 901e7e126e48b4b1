#include "onnx_memopt/support/file_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;

absl::Status SourceTooShort() {
  return absl::DataLossError("the file that is copied from became shorter");
}

// Errors with which the kernel says that it cannot copy between these two
// files, though reading and writing works.
bool MeansUnsupported(int error) {
  return error == EXDEV || error == EINVAL || error == ENOSYS ||
         error == EOPNOTSUPP || error == EBADF || error == EPERM;
}

}  // namespace

absl::Status FileWriter::WriteAll(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno);
    }
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

absl::Status FileWriter::Flush() {
  RETURN_IF_ERROR(WriteAll(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status FileWriter::Append(absl::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) RETURN_IF_ERROR(Flush());
  if (bytes.size() >= kBufferBytes) {
    RETURN_IF_ERROR(WriteAll(bytes));
  } else {
    buffer_.append(bytes.data(), bytes.size());
  }
  position_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status FileWriter::PadTo(int64_t alignment) {
  assert(alignment > 0 && "an alignment is positive");
  const int64_t rest = position_ % alignment;
  if (rest == 0) return absl::OkStatus();
  return Append(std::string(static_cast<size_t>(alignment - rest), '\0'));
}

absl::Status FileWriter::CopyFrom(int source_fd, int64_t offset, int64_t size) {
  assert(offset >= 0 && size >= 0 && "a range is not negative");
  if (size < static_cast<int64_t>(kBufferBytes)) {
    return CopyThroughBuffer(source_fd, offset, size);
  }
  RETURN_IF_ERROR(Flush());
  off_t from = offset;
  while (size > 0) {
    const ssize_t copied = copy_file_range(
        source_fd, &from, fd_, nullptr, static_cast<size_t>(size), /*flags=*/0);
    if (copied < 0) {
      if (errno == EINTR) continue;
      if (!MeansUnsupported(errno)) return ErrnoStatus(errno);
    }
    // Some file systems answer 0 where they should say "unsupported"; reading
    // tells which it is.
    if (copied <= 0) return CopyThroughBuffer(source_fd, from, size);
    size -= copied;
    position_ += copied;
  }
  return absl::OkStatus();
}

absl::Status FileWriter::CopyThroughBuffer(int source_fd, int64_t offset,
                                           int64_t size) {
  while (size > 0) {
    if (buffer_.size() >= kBufferBytes) RETURN_IF_ERROR(Flush());
    const size_t used = buffer_.size();
    const size_t want = static_cast<size_t>(
        std::min<int64_t>(size, static_cast<int64_t>(kBufferBytes - used)));
    buffer_.resize(used + want);
    const ssize_t got = pread(source_fd, buffer_.data() + used, want, offset);
    const int error = errno;
    buffer_.resize(used + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0) {
      if (error == EINTR) continue;
      return ErrnoStatus(error);
    }
    if (got == 0) return SourceTooShort();
    offset += got;
    size -= got;
    position_ += got;
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt
