// Seconds since the planner began, and shares of what it may take.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CLOCK_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CLOCK_H_

#include <chrono>

namespace onnx_memopt::plan {

class Clock {
 public:
  explicit Clock(double limit_seconds) : limit_(limit_seconds) {}
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start_)
        .count();
  }
  bool limited() const { return limit_ > 0; }
  double limit() const { return limit_; }
  // Whether this share of the time is over.
  bool Over(double share = 1) const {
    return limited() && Seconds() >= share * limit_;
  }
  // How much of the time from `begin` to `end` is over. On a busy machine a
  // part may begin when its end has passed: then all of it is.
  double ShareOf(double begin, double end) const {
    return begin < end ? (Seconds() - begin) / (end - begin) : 1;
  }

 private:
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
  double limit_;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CLOCK_H_
