// Reads ranges of a file without mapping or keeping it, so that the memory used
// does not depend on the file's size.
//
//   ASSIGN_OR_RETURN(auto file, RandomAccessFile::Open("weights.data"));
//   RETURN_IF_ERROR(file.Read(offset, absl::MakeSpan(buffer)));
#ifndef ONNX_MEMOPT_SUPPORT_RANDOM_ACCESS_FILE_H_
#define ONNX_MEMOPT_SUPPORT_RANDOM_ACCESS_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace onnx_memopt {

class RandomAccessFile {
 public:
  // kNotFound if there is no such file; messages begin with the path.
  static absl::StatusOr<RandomAccessFile> Open(const std::string& path);
  RandomAccessFile(RandomAccessFile&& other) noexcept;
  RandomAccessFile& operator=(RandomAccessFile&& other) noexcept;
  ~RandomAccessFile();

  // Fills `buffer`; kOutOfRange if the file ends before that.
  absl::Status Read(int64_t offset_bytes, absl::Span<char> buffer) const;
  // True if the file system stores nothing for this range: it reads as zeros,
  // and need not be read. False where that is not known.
  bool IsHole(int64_t offset_bytes, int64_t length_bytes) const;

 private:
  RandomAccessFile(std::string path, int fd);
  std::string path_;
  int fd_ = -1;
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_RANDOM_ACCESS_FILE_H_
