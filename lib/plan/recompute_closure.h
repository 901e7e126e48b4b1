// Which of some yes-or-no choices to make, each with a weight, where a choice
// may force others: the cheapest set that is closed under "forces", by a
// maximum flow (Dinic).
//
//   ClosureProblem p;
//   const int32_t a = p.AddChoice(-5), b = p.AddChoice(3);
//   p.AddForce(a, b);                  // a takes b along
//   p.Solve() == -2;                   // both: -5 + 3
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CLOSURE_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CLOSURE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onnx_memopt::plan {

class ClosureProblem {
 public:
  int32_t AddChoice(double weight) {
    weights_.push_back(weight);
    must_.push_back(false);
    return static_cast<int32_t>(weights_.size()) - 1;
  }
  void SetWeight(int32_t choice, double weight) { weights_[choice] = weight; }
  void Require(int32_t choice) { must_[choice] = true; }
  void AddForce(int32_t choice, int32_t forced) {
    forces_.push_back({choice, forced});
  }

  // The least total weight, never overestimated by more than rounding: a flow
  // that is cut short gives less, not more.
  double Solve();
  // Whether the solution makes the choice.
  bool chosen(int32_t choice) const { return level_[choice] >= 0; }

 private:
  struct Force {
    int32_t choice;
    int32_t forced;
  };
  struct Arc {
    int32_t to;
    double room;
  };

  void AddArc(int32_t from, int32_t to, double capacity);
  bool Label();
  double Augment();

  std::vector<double> weights_;
  std::vector<bool> must_;
  std::vector<Force> forces_;
  // Arc 2k and its reverse 2k + 1.
  std::vector<Arc> arcs_;
  std::vector<std::vector<int32_t>> out_;  // by vertex: arcs
  std::vector<int32_t> level_;
  std::vector<size_t> next_;
  int32_t source_ = 0;
  int32_t sink_ = 0;
  double least_ = 0;  // less room than this is none
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CLOSURE_H_
