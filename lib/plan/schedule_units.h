// Units: nodes that may as well run one right after the other. The searches
// order units, which are fewer, and cells (schedule_cells.h) appear where stray
// nodes, such as a constant at the top of the file, hid them.
//
// Two rules, neither of which raises the peak of any order:
//   early: w depends on one unit u alone, gives back at least what it
//          allocates, and its hill above the level that u leaves is no higher
//          than u's own was. Then w may run right after u.
//   late:  u has one unit w after it, takes room on balance, and its hill is no
//          higher than w's is anyway. Then u may run right before w.
// Both need effects that are the same in every order: the unit's operands have
// no other readers.
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_UNITS_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_UNITS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/schedule_model.h"

namespace onnx_memopt::plan {

// Unit numbers follow the input order: 0, 1, 2, ... is a valid order.
struct UnitGraph {
  std::vector<std::vector<int32_t>> members;  // nodes in the order to run
  std::vector<int32_t> unit_of;               // per node
  Lists preds;
  Lists succs;
  // Has no unit before it and may run right before the first of those after it
  // ("late" with several w).
  std::vector<bool> floating;

  int32_t size() const { return static_cast<int32_t>(members.size()); }
};

// `order` is a valid order of the nodes.
UnitGraph GlueUnits(const Model& model, absl::Span<const int32_t> order);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_UNITS_H_
