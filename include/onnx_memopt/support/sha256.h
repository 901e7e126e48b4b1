// SHA-256, as 64 lower-case hexadecimal digits.
//
//   ASSIGN_OR_RETURN(std::string digest, Sha256Hex("abc"));
//   // "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#ifndef ONNX_MEMOPT_SUPPORT_SHA256_H_
#define ONNX_MEMOPT_SUPPORT_SHA256_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt {

absl::StatusOr<std::string> Sha256Hex(absl::string_view bytes);

// Of a whole file, read in chunks: memory does not grow with the file, and the
// descriptor's position does not move.
absl::StatusOr<std::string> Sha256HexOfFile(int fd);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_SHA256_H_
