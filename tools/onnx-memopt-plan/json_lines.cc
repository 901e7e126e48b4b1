#include "onnx-memopt-plan/json_lines.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

namespace onnx_memopt::cli {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Walks over a text that is known to be valid JSON. Keys are compared as they
// stand, with no escapes resolved.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) { SkipSpace(); }

  size_t at() const { return at_; }

  // Moves from an object or a list to the beginning of a member; false if there
  // is none: then the cursor is lost. Of equal keys the last counts, as in the
  // parser.
  bool Enter(const JsonStep& step) {
    const bool object = Peek() == '{';
    if (!object && Peek() != '[') return false;
    if (object != std::holds_alternative<std::string>(step)) return false;
    const char close = object ? '}' : ']';
    size_t found = text_.size();
    ++at_;
    SkipSpace();
    for (size_t index = 0; at_ < text_.size() && Peek() != close; ++index) {
      bool same = !object && std::get<size_t>(step) == index;
      if (object) {
        const size_t key = at_;
        SkipString();
        same = text_.substr(key + 1, at_ - key - 2) == std::get<0>(step);
        SkipSpace();
        ++at_;  // the colon
        SkipSpace();
      }
      if (same) found = at_;
      if (same && !object) break;
      SkipValue();
      SkipSpace();
      if (Peek() == ',') ++at_;
      SkipSpace();
    }
    at_ = found;
    return found < text_.size();
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void SkipSpace() {
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
  }

  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    ++at_;
  }

  void SkipValue() {
    size_t depth = 0;
    do {
      const char c = Peek();
      if (c == '"') {
        SkipString();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        --depth;
        ++at_;
      } else if (c == ',' || c == ':') {
        ++at_;
      } else {
        at_ = std::min(text_.find_first_of(",:{}[]\"", at_), text_.size());
      }
    } while (depth > 0 && at_ < text_.size());
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

size_t JsonLines::Of(const JsonPath& path) const {
  Cursor cursor(text_);
  size_t at = cursor.at();
  for (const JsonStep& step : path) {
    if (!cursor.Enter(step)) break;
    at = cursor.at();
  }
  return 1 + static_cast<size_t>(
                 std::count(text_.begin(), text_.begin() + at, '\n'));
}

}  // namespace onnx_memopt::cli
