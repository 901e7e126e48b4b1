// Owns a file descriptor.
//
//   UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
//   if (!fd.valid()) return ErrnoStatus(errno);
#ifndef ONNX_MEMOPT_SUPPORT_UNIQUE_FD_H_
#define ONNX_MEMOPT_SUPPORT_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace onnx_memopt {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_UNIQUE_FD_H_
