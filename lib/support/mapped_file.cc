#include "onnx_memopt/support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace onnx_memopt {
namespace {

absl::Status TooLarge(int64_t max_bytes) {
  return absl::OutOfRangeError(
      absl::StrCat("larger than ", max_bytes, " bytes"));
}

}  // namespace

std::string ErrnoMessage(int error) {
  switch (error) {
    case ENOENT:
      return "no such file or folder";
    case EISDIR:
      return "is a directory";
    default:
      return absl::AsciiStrToLower(std::generic_category().message(error));
  }
}

absl::Status ErrnoStatus(int error) {
  const std::string message = ErrnoMessage(error);
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::FailedPreconditionError(message);
  }
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path,
                                            int64_t max_bytes) {
  // Without O_NONBLOCK, opening a pipe that has no writer would hang.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno);
  if (S_ISDIR(info.st_mode)) return ErrnoStatus(EISDIR);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(
        "not a regular file; to read from a pipe, name the file \"-\"");
  }
  if (info.st_size == 0) return absl::InvalidArgumentError("empty file");
  if (info.st_size > max_bytes) return TooLarge(max_bytes);
  const size_t size = static_cast<size_t>(info.st_size);
  void* address =
      mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), /*offset=*/0);
  if (address == MAP_FAILED) return ErrnoStatus(errno);
  return MappedFile(std::move(fd),
                    absl::string_view(static_cast<const char*>(address), size));
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      bytes_(std::exchange(other.bytes_, absl::string_view())) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
}

void MappedFile::DropResident() const {
  if (bytes_.empty()) return;
  // The mapping is read-only, so nothing is lost; a failure costs only memory.
  madvise(const_cast<char*>(bytes_.data()), bytes_.size(), MADV_DONTNEED);
}

absl::StatusOr<std::string> ReadToEnd(int fd, int64_t max_bytes) {
  constexpr size_t kFirstChunk = size_t{1} << 16;
  std::string out;
  size_t used = 0;
  while (true) {
    if (used == out.size()) {
      out.resize(out.empty() ? kFirstChunk : out.size() * 2);
    }
    const ssize_t got = read(fd, out.data() + used, out.size() - used);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno);
    }
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (static_cast<int64_t>(used) > max_bytes) return TooLarge(max_bytes);
  }
  out.resize(used);
  return out;
}

}  // namespace onnx_memopt
