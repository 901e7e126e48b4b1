#include "registry.h"

#include <memory>

namespace onnx_memopt::passes {

// Each factory is defined in the file of its pass.
#define PASS(name, factory, summary)                   \
  absl::StatusOr<std::unique_ptr<pass::Pass>> factory( \
      pass::PassOptions& options);
#include "passes.def"
#undef PASS

absl::Span<const pass::PassInfo> RegisteredPasses() {
  static constexpr pass::PassInfo kPasses[] = {
#define PASS(name, factory, summary) {(name), (summary), &(factory)},
#include "passes.def"
#undef PASS
  };
  return kPasses;
}

}  // namespace onnx_memopt::passes
