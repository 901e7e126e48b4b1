// Schedule problems for tests: a builder, and random ones.
#ifndef ONNX_MEMOPT_TEST_UNIT_PLAN_SCHEDULE_PROBLEMS_H_
#define ONNX_MEMOPT_TEST_UNIT_PLAN_SCHEDULE_PROBLEMS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "onnx_memopt/plan/schedule.h"

namespace onnx_memopt::plan {

// Every node has one result; its number is the buffer's.
//
//   ProblemBuilder p;
//   int32_t x = p.Input(4);
//   int32_t a = p.Node(8, {x});   // reads x, makes 8 bytes
//   p.Keep(a);
class ProblemBuilder {
 public:
  int32_t Input(int64_t size_bytes) {
    problem_.buffers.push_back({.size_bytes = size_bytes, .producer = -1});
    return static_cast<int32_t>(problem_.buffers.size()) - 1;
  }
  int32_t Node(int64_t size_bytes, const std::vector<int32_t>& operands) {
    const auto node = static_cast<int32_t>(problem_.nodes.size());
    problem_.nodes.emplace_back();
    for (int32_t operand : operands) {
      std::vector<int32_t>& readers = problem_.buffers[operand].readers;
      if (readers.empty() || readers.back() != node) readers.push_back(node);
    }
    problem_.buffers.push_back({.size_bytes = size_bytes, .producer = node});
    return static_cast<int32_t>(problem_.buffers.size()) - 1;
  }
  // A node that writes its result over its first operand if it can.
  int32_t NodeInPlace(const std::vector<int32_t>& operands) {
    const int64_t size_bytes = problem_.buffers[operands.front()].size_bytes;
    const int32_t result = Node(size_bytes, operands);
    problem_.nodes.back().in_place.push_back({operands.front(), result});
    return result;
  }
  void Keep(int32_t buffer) { problem_.buffers[buffer].live_to_end = true; }
  ScheduleProblem& problem() { return problem_; }

 private:
  ScheduleProblem problem_;
};

// What a random problem is made of; shares are out of 100.
struct RandomShape {
  int nodes = 8;
  int max_operands = 3;
  int reach = 8;  // operands come from this many latest buffers
  int64_t max_size = 20;
  int in_place_share = 30;
  int keep_share = 10;
  int extra_share = 20;
  int after_share = 10;
};

class RandomProblems {
 public:
  explicit RandomProblems(uint32_t seed) : random_(seed) {}

  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit));
  }
  bool Chance(int share) { return Below(100) < share; }

  ScheduleProblem Make(const RandomShape& shape) {
    ScheduleProblem problem;
    std::vector<ScheduleBuffer>& buffers = problem.buffers;
    const int64_t inputs = 1 + Below(3);
    for (int64_t i = 0; i < inputs; ++i) AddBuffer(shape, -1, buffers);
    for (int32_t id = 0; id < shape.nodes; ++id) {
      ScheduleNode node;
      const auto known = static_cast<int64_t>(buffers.size());
      const int64_t near = std::min<int64_t>(known, shape.reach);
      std::vector<int32_t> operands;
      for (int64_t i = Below(shape.max_operands + 1); i > 0; --i) {
        const auto b = static_cast<int32_t>(known - 1 - Below(near));
        if (std::find(operands.begin(), operands.end(), b) == operands.end()) {
          operands.push_back(b);
          buffers[b].readers.push_back(id);
        }
      }
      const int64_t results = Chance(15) ? Below(4) : 1;
      for (int64_t i = 0; i < results; ++i) AddBuffer(shape, id, buffers);
      for (int32_t operand : operands) {
        for (auto r = static_cast<int32_t>(known);
             r < static_cast<int32_t>(buffers.size()); ++r) {
          if (!Chance(shape.in_place_share)) continue;
          // Results already in a pair keep their size.
          const bool fresh = std::none_of(
              node.in_place.begin(), node.in_place.end(),
              [&](const InPlacePair& p) { return p.result_buffer == r; });
          if (fresh) buffers[r].size_bytes = buffers[operand].size_bytes;
          if (buffers[r].size_bytes == buffers[operand].size_bytes) {
            node.in_place.push_back({operand, r});
          }
        }
      }
      if (Chance(shape.extra_share)) node.extra_bytes = Below(shape.max_size);
      if (id > 0 && Chance(shape.after_share)) {
        node.after.push_back(static_cast<int32_t>(Below(id)));
      }
      problem.nodes.push_back(node);
    }
    return problem;
  }

 private:
  void AddBuffer(const RandomShape& shape, int32_t producer,
                 std::vector<ScheduleBuffer>& buffers) {
    ScheduleBuffer buffer;
    buffer.size_bytes = Chance(10) ? 0 : Below(shape.max_size);
    buffer.producer = producer;
    buffer.live_to_end = Chance(shape.keep_share);
    buffers.push_back(buffer);
  }

  std::mt19937 random_;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_TEST_UNIT_PLAN_SCHEDULE_PROBLEMS_H_
