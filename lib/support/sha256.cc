#include "onnx_memopt/support/sha256.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

class Hasher {
 public:
  absl::Status Begin() {
    return Check(context_ != nullptr &&
                 EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  absl::Status Add(absl::string_view bytes) {
    return Check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) ==
                 1);
  }
  absl::StatusOr<std::string> Finish() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned size = 0;
    RETURN_IF_ERROR(
        Check(EVP_DigestFinal_ex(context_.get(), digest.data(), &size) == 1));
    return absl::BytesToHexString(
        absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
  }

 private:
  static absl::Status Check(bool ok) {
    return ok ? absl::OkStatus() : absl::InternalError("SHA-256 failed");
  }

  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

}  // namespace

absl::StatusOr<std::string> Sha256Hex(absl::string_view bytes) {
  Hasher hasher;
  RETURN_IF_ERROR(hasher.Begin());
  RETURN_IF_ERROR(hasher.Add(bytes));
  return hasher.Finish();
}

absl::StatusOr<std::string> Sha256HexOfFile(int fd) {
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<char> buffer(kChunk);
  Hasher hasher;
  RETURN_IF_ERROR(hasher.Begin());
  off_t offset = 0;
  while (true) {
    const ssize_t got = pread(fd, buffer.data(), buffer.size(), offset);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno);
    }
    if (got == 0) return hasher.Finish();
    RETURN_IF_ERROR(
        hasher.Add(absl::string_view(buffer.data(), static_cast<size_t>(got))));
    offset += got;
  }
}

}  // namespace onnx_memopt
