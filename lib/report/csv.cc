#include "onnx_memopt/report/csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt {
namespace {

// Spreadsheets skip these when they look for a formula.
constexpr absl::string_view kSkipped = " \t\r\n";

bool LooksLikeFormula(absl::string_view text) {
  const size_t first = text.find_first_not_of(kSkipped);
  return first != absl::string_view::npos &&
         absl::string_view("=+-@").find(text[first]) != absl::string_view::npos;
}

// Text from a model.
std::string Cell(absl::string_view text) {
  const absl::string_view guard = LooksLikeFormula(text) ? "'" : "";
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) {
    return absl::StrCat(guard, text);
  }
  return absl::StrCat("\"", guard, absl::StrReplaceAll(text, {{"\"", "\"\""}}),
                      "\"");
}

}  // namespace

std::string TensorsToCsv(const Report& report) {
  std::string out =
      "graph,name,producer,kind,dtype,shape,bytes,begin,end,storage,"
      "bytes_formula\r\n";
  for (const ReportTensor& tensor : report.tensors) {
    absl::StrAppend(&out, tensor.graph, ",", Cell(tensor.name), ",",
                    Cell(tensor.producer), ",", tensor.kind, ",",
                    Cell(tensor.dtype), ",", Cell(tensor.shape), ",",
                    tensor.bytes ? absl::StrCat(*tensor.bytes) : "", ",",
                    tensor.begin, ",", tensor.end, ",", tensor.storage, ",",
                    Cell(tensor.bytes_formula), "\r\n");
  }
  return out;
}

}  // namespace onnx_memopt
