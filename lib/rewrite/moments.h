// Second moments of the inputs of layers, from a file that
// `onnx-memopt moments` writes, and matrices as such inputs see them.
//
//   ASSIGN_OR_RETURN(Moments moments, Moments::Open("model.moments"));
//   ASSIGN_OR_RETURN(std::optional<Matrix> root,
//                    moments.RootFor("w", /*side=*/768));
//   const Matrix seen = WithRoot(w, *root, Side::kRows);
//
// With S = E[x' x] = L L', the error of the outputs x A is that of L' A, by the
// sum of squares: the best factors for such inputs are those of L' A. The file
// is in the format "safetensors": a header in JSON, and float32 matrices.
#ifndef ONNX_MEMOPT_LIB_REWRITE_MOMENTS_H_
#define ONNX_MEMOPT_LIB_REWRITE_MOMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/weight.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/rewrite/low_rank.h"

namespace onnx_memopt::rewrite {

class Moments {
 public:
  // kInvalidArgument if it is no such file; messages name it.
  static absl::StatusOr<Moments> Open(const std::string& path);

  // The lower triangular root of the moments of the inputs that the weight of
  // this name sees; nullopt if the file has none, or the inputs were all zero.
  absl::StatusOr<std::optional<Matrix>> RootFor(const std::string& weight,
                                                int64_t side);
  bool Has(const std::string& weight) const {
    return entries_.find(weight) != entries_.end();
  }

 private:
  std::string path_;
  std::map<std::string, ir::Weight> entries_;
  ir::WeightReader reader_;
};

// The side of a matrix that meets the inputs.
enum class Side : uint8_t { kRows, kColumns };

// L' A, or A L.
Matrix WithRoot(const Matrix& matrix, const Matrix& root, Side side);
// From the best factors of WithRoot(matrix, ...), those of the matrix itself
// that make the same error in the outputs: one factor is kept, the other is
// the projection of the matrix. Needs no inverse of the root. Chen et al.,
// DRONE: Data-aware Low-rank Compression for Large NLP Models, NeurIPS 2021;
// Wang et al., SVD-LLM, ICLR 2025.
Factors WithoutRoot(const Matrix& matrix, Factors of_seen, Side side);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_MOMENTS_H_
