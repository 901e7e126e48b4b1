#include "onnx_memopt/support/format.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Unicode.h"

namespace onnx_memopt {
namespace {

// Three significant digits.
std::string FormatScaled(double value, absl::string_view unit) {
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", digits, value, unit);
}

// Of the first character of a text that is not empty.
size_t CharacterBytes(absl::string_view text) {
  const auto* begin = reinterpret_cast<const llvm::UTF8*>(text.data());
  const llvm::UTF8* next = begin;
  llvm::UTF32 code_point = 0;
  const bool valid =
      llvm::convertUTF8Sequence(&next, begin + text.size(), &code_point,
                                llvm::strictConversion) == llvm::conversionOK;
  return valid ? static_cast<size_t>(next - begin) : 1;
}

// That a terminal gives to a character; 1 where it cannot be told.
size_t Columns(absl::string_view character) {
  const int columns = llvm::sys::unicode::columnWidthUTF8(
      llvm::StringRef(character.data(), character.size()));
  return columns < 0 ? 1 : static_cast<size_t>(columns);
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB",
                                                 "TiB", "PiB", "EiB"};
  if (std::abs(bytes) < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (std::abs(value) >= 1023.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return FormatScaled(value, kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  constexpr std::array<const char*, 6> kUnits = {"k", "M", "G", "T", "P", "E"};
  if (std::abs(count) < 1000) return absl::StrCat(count);
  double value = static_cast<double>(count) / 1000;
  size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return FormatScaled(value, kUnits[unit]);
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  size_t digits = 0;
  while (digits < trimmed.size() &&
         (absl::ascii_isdigit(trimmed[digits]) || trimmed[digits] == '.')) {
    ++digits;
  }
  const absl::string_view unit =
      absl::StripAsciiWhitespace(trimmed.substr(digits));
  struct Unit {
    absl::string_view name;
    double bytes;
  };
  constexpr double kKibi = 1024;
  static constexpr std::array<Unit, 14> kUnits = {{
      {"", 1},
      {"b", 1},
      {"k", kKibi},
      {"kib", kKibi},
      {"kb", 1e3},
      {"m", kKibi * kKibi},
      {"mib", kKibi * kKibi},
      {"mb", 1e6},
      {"g", kKibi * kKibi * kKibi},
      {"gib", kKibi * kKibi * kKibi},
      {"gb", 1e9},
      {"t", kKibi * kKibi * kKibi * kKibi},
      {"tib", kKibi * kKibi * kKibi * kKibi},
      {"tb", 1e12},
  }};
  double number = 0;
  if (digits > 0 && absl::SimpleAtod(trimmed.substr(0, digits), &number)) {
    for (const Unit& candidate : kUnits) {
      if (!absl::EqualsIgnoreCase(unit, candidate.name)) continue;
      const double bytes = number * candidate.bytes;
      if (bytes < 9.2e18) return static_cast<int64_t>(bytes);
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", Printable(text),
                   "\" is not a size; expected one like 512MiB or 2GB"));
}

std::string Ellipsize(absl::string_view text, size_t width) {
  // Where each character begins, and the end; a byte that is not UTF-8 counts
  // as a character.
  std::vector<size_t> begins;
  std::vector<size_t> columns = {0};  // up to there
  for (size_t at = 0; at < text.size();) {
    begins.push_back(at);
    const size_t bytes = CharacterBytes(text.substr(at));
    columns.push_back(columns.back() + Columns(text.substr(at, bytes)));
    at += bytes;
  }
  begins.push_back(text.size());
  if (columns.back() <= width) return std::string(text);
  // The end of a name tells more than its middle: names are paths.
  const size_t dots = width <= 2 ? 0 : 2;
  const size_t head = width <= 2 ? width : (width - dots) / 3;
  const size_t tail = width - dots - head;
  size_t cut = 0;
  while (columns[cut + 1] <= head) ++cut;
  size_t resume = begins.size() - 1;
  while (resume > cut && columns.back() - columns[resume - 1] <= tail) {
    --resume;
  }
  return absl::StrCat(text.substr(0, begins[cut]), dots > 0 ? ".." : "",
                      text.substr(begins[resume]));
}

std::string Printable(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto* begin = reinterpret_cast<const llvm::UTF8*>(text.data());
  const auto* end = begin + text.size();
  while (begin < end) {
    if (*begin < 0x80) {
      if (absl::ascii_isprint(*begin)) {
        out.push_back(static_cast<char>(*begin));
      } else {
        absl::StrAppendFormat(&out, "\\x%02x", *begin);
      }
      ++begin;
      continue;
    }
    const llvm::UTF8* next = begin;
    llvm::UTF32 code_point = 0;
    if (llvm::convertUTF8Sequence(&next, end, &code_point,
                                  llvm::strictConversion) ==
            llvm::conversionOK &&
        llvm::sys::unicode::isPrintable(static_cast<int>(code_point))) {
      out.append(reinterpret_cast<const char*>(begin),
                 reinterpret_cast<const char*>(next));
      begin = next;
    } else {
      absl::StrAppendFormat(&out, "\\x%02x", *begin);
      ++begin;
    }
  }
  return out;
}

}  // namespace onnx_memopt
