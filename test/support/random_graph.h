// Random models and graphs, valid by construction, for property tests.
//
//   for (uint64_t seed = 0; seed < 1000; ++seed) {
//     ir::Graph graph = RandomGraph(seed, {.max_nodes = 12});
//     ...
//   }
//
// A seed gives the same model on every machine. A model has float tensors of
// few elements; elementwise ops, some of which run in place; views; ops with
// several results, or with an operand or a result left out; constants; weights
// that repeat; dead nodes; outputs that are inputs, weights or views. Options
// add If, Loop and Scan with captured values, calls of model-local functions
// that call others, results of unknown size, and named dims.
#ifndef ONNX_MEMOPT_TEST_SUPPORT_RANDOM_GRAPH_H_
#define ONNX_MEMOPT_TEST_SUPPORT_RANDOM_GRAPH_H_

#include <cstdint>
#include <vector>

#include "onnx/onnx_pb.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::testing {

// splitmix64: the same numbers everywhere, unlike std's distributions.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // From 0 to n - 1.
  int Below(int n) {
    return static_cast<int>(Next() % static_cast<uint64_t>(n));
  }
  bool OneIn(int n) { return Below(n) == 0; }
  template <typename T>
  const T& Pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(Below(static_cast<int>(items.size())))];
  }

 private:
  uint64_t state_;
};

struct RandomGraphOptions {
  int min_nodes = 1;  // of the main graph
  int max_nodes = 12;
  int max_depth = 0;           // of nested subgraphs
  bool calls = false;          // of model-local functions
  bool unknown_sizes = false;  // results of ops that nobody knows
  bool named_dims = false;     // "n" and "m"
};

onnx::ModelProto RandomModel(uint64_t seed, const RandomGraphOptions& options);

// RandomModel, imported. Throws if that fails, which a test must not expect.
ir::Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options);
ir::Graph ImportOrThrow(const onnx::ModelProto& model);

// How much of a long property test a build does: all of it, or a part where
// sanitizers make it slow.
constexpr int Runs(int wanted) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  return (wanted + 19) / 20;
#endif
#endif
  return wanted;
}

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_SUPPORT_RANDOM_GRAPH_H_
