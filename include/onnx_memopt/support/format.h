// Numbers as people read them.
//
//   FormatBytes(13421772);   // "12.8 MiB"
//   FormatCount(3859483648); // "3.86 G"
#ifndef ONNX_MEMOPT_SUPPORT_FORMAT_H_
#define ONNX_MEMOPT_SUPPORT_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt {

// Binary units, three significant digits; exact below 1 KiB ("512 B").
std::string FormatBytes(int64_t bytes);
// Decimal units: k, M, G, T; exact below 1000.
std::string FormatCount(int64_t count);

// "2GiB", "512 MiB", "1.5 GB", "1048576", "64k" -> bytes. KiB/MiB/GiB/TiB are
// binary, kB/MB/GB/TB decimal, and a bare K, M, G or T is binary.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// `text` in at most `width` columns: the middle is replaced by "..".
std::string Ellipsize(absl::string_view text, size_t width);

// Printable on one line of a terminal: control characters and invalid UTF-8
// become escapes, so that a name from a file can do no harm.
std::string Printable(absl::string_view text);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_FORMAT_H_
