#include "onnx_memopt/support/atomic_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

// Short, so that it fits wherever the destination's name does.
absl::StatusOr<std::string> TemporaryName(const std::string& path) {
  std::array<char, 12> random;
  if (getrandom(random.data(), random.size(), /*flags=*/0) !=
      static_cast<ssize_t>(random.size())) {
    return ErrnoStatus(errno);
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  return absl::StrCat(
      folder, ".memopt-",
      absl::BytesToHexString(absl::string_view(random.data(), random.size())),
      ".tmp");
}

}  // namespace

AtomicFile::AtomicFile(UniqueFd fd, std::string path, std::string temporary)
    : fd_(std::move(fd)),
      path_(std::move(path)),
      temporary_(std::move(temporary)),
      writer_(std::make_unique<FileWriter>(fd_.get())) {}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  if (path.empty()) return ErrnoStatus(ENOENT);
  struct stat existing;
  const bool exists = stat(path.c_str(), &existing) == 0;
  if (exists && S_ISDIR(existing.st_mode)) return ErrnoStatus(EISDIR);
  // Renaming over a device such as /dev/null would replace the device.
  if (exists && !S_ISREG(existing.st_mode)) {
    return absl::FailedPreconditionError("exists and is not a regular file");
  }
  ASSIGN_OR_RETURN(std::string temporary, TemporaryName(path));
  UniqueFd fd(
      open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return ErrnoStatus(errno);
  AtomicFile file(std::move(fd), path, std::move(temporary));
  if (exists) RETURN_IF_ERROR(file.SetMode(existing.st_mode & 0777));
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      writer_(std::move(other.writer_)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::StatusOr<mode_t> AtomicFile::Mode() const {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno);
  return info.st_mode & 0777;
}

absl::Status AtomicFile::SetMode(mode_t mode) {
  if (fchmod(fd_.get(), mode) != 0) return ErrnoStatus(errno);
  return absl::OkStatus();
}

absl::Status AtomicFile::Finish() { return writer_->Flush(); }

absl::Status AtomicFile::Commit() {
  RETURN_IF_ERROR(Finish());
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno);
  }
  temporary_.clear();
  return absl::OkStatus();
}

}  // namespace onnx_memopt
