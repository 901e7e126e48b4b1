// The table of gradient rules: one row an op, of those ops of the op table
// (ir/op_info.h) whose backward pass this project can write in standard ONNX
// ops. docs/gradients.md lists it.
//
//   const RuleRow* row = FindRule("", "MatMul");
//   if (row == nullptr) ...  // no gradient flows through this op here
#ifndef ONNX_MEMOPT_GRAD_RULES_H_
#define ONNX_MEMOPT_GRAD_RULES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace onnx_memopt::grad {

class RuleContext;  // lib/grad/rule_context.h

// Emits the gradients of a node's operands from those of its results.
using GradientRule = absl::Status (*)(RuleContext& context);

// Which of the operands that the op table lists as saved are really read.
enum class Reads : uint8_t {
  kAll,     // whichever gradient is wanted
  kOthers,  // each operand's gradient reads the others only, as of a product
};

struct RuleRow {
  absl::string_view domain;  // "" is ai.onnx
  absl::string_view op;
  GradientRule rule = nullptr;
  Reads reads = Reads::kAll;
  // What the rule refuses, for the documentation.
  absl::string_view limits;
};

// Null if there is none. Domains "" and "ai.onnx" are the same.
const RuleRow* FindRule(absl::string_view domain, absl::string_view op);
// All rows, sorted by domain and op.
absl::Span<const RuleRow> AllRules();

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_RULES_H_
