// Spends one error budget over many items where it saves the most.
//
//   // For each layer, what it can save and the error that this makes.
//   const std::vector<int> chosen = SpendError({{{100, 0.1}, {150, 0.4}},
//                                               {{80, 0.3}}},
//                                              /*budget=*/0.5);
//   // chosen[0] == 0: 100 bytes for 0.1; chosen[1] == 0: 80 bytes for 0.3
//
// Errors of items add up. Of each item only savings on the lower convex hull of
// error over bytes are steps; all steps are taken in the order of error per
// byte until one does not fit. That is the most that can be saved for the error
// that is spent (Everett, Generalized Lagrange Multiplier Method, 1963). What
// is left of the budget, less than one step, goes to whatever still fits in
// that order.
#ifndef ONNX_MEMOPT_PLAN_ERROR_BUDGET_H_
#define ONNX_MEMOPT_PLAN_ERROR_BUDGET_H_

#include <cstdint>
#include <vector>

namespace onnx_memopt::plan {

struct Saving {
  int64_t bytes = 0;  // positive
  double error = 0;   // not negative
};

// For each item the index of one of its savings, or -1 for none. The errors of
// what is chosen add up to no more than `budget`.
std::vector<int> SpendError(const std::vector<std::vector<Saving>>& items,
                            double budget);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_ERROR_BUDGET_H_
