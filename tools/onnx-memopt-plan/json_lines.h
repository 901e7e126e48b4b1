// In which line of a JSON text a value stands, for messages.
//
//   const JsonLines lines(text);
//   lines.Of({"edges", 3})   // of the fourth edge
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_JSON_LINES_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_JSON_LINES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace onnx_memopt::cli {

// A key of an object, or an index in a list.
using JsonStep = std::variant<std::string, size_t>;
using JsonPath = std::vector<JsonStep>;

class JsonLines {
 public:
  // `text` must be valid JSON and outlive this.
  explicit JsonLines(std::string_view text) : text_(text) {}

  // The line, from 1, where the value begins. Where there is none, that of the
  // value that should hold it.
  size_t Of(const JsonPath& path) const;

 private:
  std::string_view text_;
};

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_JSON_LINES_H_
