// In place of the generated source where there is no Node.js to make it.
#include "report/page.h"

namespace onnx_memopt {

absl::string_view PageHead() { return {}; }
absl::string_view PageTail() { return {}; }

}  // namespace onnx_memopt
