#include "onnx_memopt/support/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/mapped_file.h"

namespace onnx_memopt {
namespace {

// A mapping begins on a page.
constexpr int64_t kPageBytes = 4096;

absl::Status In(const std::string& folder, int error) {
  return absl::Status(ErrnoStatus(error).code(),
                      absl::StrCat("temporary file in \"", folder,
                                   "\": ", ErrnoMessage(error)));
}

}  // namespace

absl::StatusOr<ScratchFile> ScratchFile::Create() {
  const char* wanted = std::getenv("TMPDIR");
  std::string folder =
      wanted != nullptr && *wanted != '\0' ? wanted : "/var/tmp";
  UniqueFd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd.valid() && (errno == EOPNOTSUPP || errno == EISDIR)) {
    // A file system that has no files without a name: it loses it at once.
    std::string path = absl::StrCat(folder, "/.memopt-XXXXXX");
    fd = UniqueFd(mkostemp(path.data(), O_CLOEXEC));
    if (fd.valid()) unlink(path.c_str());
  }
  if (!fd.valid()) return In(folder, errno);
  return ScratchFile(std::move(fd), std::move(folder));
}

ScratchFile::~ScratchFile() {
  for (absl::string_view bytes : mapped_) {
    munmap(const_cast<char*>(bytes.data()), bytes.size());
  }
}

absl::StatusOr<absl::string_view> ScratchFile::Append(absl::string_view bytes) {
  assert(!bytes.empty() && "nothing cannot be mapped");
  const int64_t begin = size_bytes_;
  int64_t at = begin;
  for (absl::string_view rest = bytes; !rest.empty();) {
    const ssize_t put = pwrite(fd_.get(), rest.data(), rest.size(), at);
    if (put < 0) {
      if (errno == EINTR) continue;
      return In(folder_, errno);
    }
    at += put;
    rest.remove_prefix(static_cast<size_t>(put));
  }
  void* address =
      mmap(nullptr, bytes.size(), PROT_READ, MAP_PRIVATE, fd_.get(), begin);
  if (address == MAP_FAILED) return In(folder_, errno);
  size_bytes_ = (at + kPageBytes - 1) / kPageBytes * kPageBytes;
  mapped_.emplace_back(static_cast<const char*>(address), bytes.size());
  return mapped_.back();
}

void ScratchFile::DropResident() const {
  for (absl::string_view bytes : mapped_) {
    madvise(const_cast<char*>(bytes.data()), bytes.size(), MADV_DONTNEED);
  }
}

}  // namespace onnx_memopt
