// Layers with a matrix of weights as two smaller layers, by a truncated
// singular value decomposition.
//
//   MatMul(x, w [m, n])   =>  MatMul(MatMul(x, l [m, r]), r [r, n])
//   Gemm                  =>  MatMul or Gemm, then Gemm with its bias
//   Conv k x k            =>  by channels: Conv k x k to r channels, Conv 1 x
//   1;
//                             or spatially: Conv k x 1 to r channels, Conv 1 x
//                             k
//
// A layer is left as it is unless its bytes and its arithmetic both fall.
//
//   ASSIGN_OR_RETURN(FactorResult result,
//                    FactorizeLayers({.energy = 0.99}, &graph));
#ifndef ONNX_MEMOPT_REWRITE_FACTORIZE_H_
#define ONNX_MEMOPT_REWRITE_FACTORIZE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// How the rank of a layer is chosen: by the first of these that is set.
struct FactorOptions {
  std::optional<int64_t> rank;
  // Relative, of the weights, by the sum of squares of all elements.
  std::optional<double> max_error;
  // For all layers together: the root of the mean of the squares of their
  // relative errors. Ranks are taken where that saves the most.
  std::optional<double> error_budget;
  // Part of the sum of squares that is to stay.
  double energy = 0.99;
  // A file of second moments of the layers' inputs (`onnx-memopt moments`), or
  // none. Energies and errors of weights that it has are those of the outputs.
  std::string moments;
  // Weights of fewer elements are left alone.
  int64_t min_elements = 4096;
  // Matrices whose shorter side is longer are left alone.
  int64_t max_side = 32768;
};

enum class LayerForm : uint8_t {
  kMatMul,       // weights are the second operand
  kMatMulFirst,  // weights are the first operand
  kGemm,
  kConvChannels,
  kConvSpatial,
};
absl::string_view Name(LayerForm form);

struct FactoredLayer {
  std::string weight;  // its name
  std::vector<int64_t> dims;
  LayerForm form = LayerForm::kMatMul;
  int64_t nodes = 1;  // that read the weight
  int64_t rank = 0;
  int64_t full_rank = 0;    // the most that its matrix can have
  bool of_outputs = false;  // energy and error are, not of the weights
  double energy = 0;        // that is kept
  double error = 0;         // relative, as FactorOptions::max_error
  int64_t bytes_before = 0;
  int64_t bytes_after = 0;
};

struct FactorResult {
  std::vector<FactoredLayer> layers;
  // Layers that were looked at and stay: their rank would not save anything.
  int64_t unchanged = 0;
  int64_t too_large = 0;     // by max_side
  int64_t longest_side = 0;  // the longest shorter side that was seen
};

// kInvalidArgument if a weight cannot be read or has numbers that are not
// finite. With `apply` false nothing is changed: what would be done.
absl::StatusOr<FactorResult> FactorizeLayers(const FactorOptions& options,
                                             ir::Graph* graph,
                                             bool apply = true);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_FACTORIZE_H_
