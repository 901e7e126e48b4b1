#include "onnx_memopt/support/random_access_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/Support/Errno.h"

namespace onnx_memopt {

RandomAccessFile::RandomAccessFile(std::string path, int fd)
    : path_(std::move(path)), fd_(fd) {}

RandomAccessFile::RandomAccessFile(RandomAccessFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

RandomAccessFile& RandomAccessFile::operator=(
    RandomAccessFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

RandomAccessFile::~RandomAccessFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<RandomAccessFile> RandomAccessFile::Open(
    const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    const std::string message =
        absl::StrCat(path, ": ", llvm::sys::StrError(error));
    return error == ENOENT ? absl::NotFoundError(message)
                           : absl::UnavailableError(message);
  }
  return RandomAccessFile(path, fd);
}

absl::Status RandomAccessFile::Read(int64_t offset_bytes,
                                    absl::Span<char> buffer) const {
  while (!buffer.empty()) {
    const ssize_t n = pread(fd_, buffer.data(), buffer.size(), offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return absl::UnavailableError(
          absl::StrCat(path_, ": ", llvm::sys::StrError(errno)));
    }
    if (n == 0) {
      return absl::OutOfRangeError(
          absl::StrCat(path_, ": ends at byte ", offset_bytes, "; ",
                       buffer.size(), " more were expected"));
    }
    offset_bytes += n;
    buffer.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

bool RandomAccessFile::IsHole(int64_t offset_bytes,
                              int64_t length_bytes) const {
  const off_t data = lseek(fd_, offset_bytes, SEEK_DATA);
  if (data < 0) return errno == ENXIO;  // a hole up to the end of the file
  return data >= offset_bytes + length_bytes;
}

}  // namespace onnx_memopt
