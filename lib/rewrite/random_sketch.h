// The leading singular vectors of a large matrix, found with random vectors.
//
//   const std::optional<Sketch> sketch =
//       SketchOf(matrix, {.energy = 0.99, .max_rank = 500});
//   if (!sketch) ...  // decompose it exactly: that takes no longer
//
// Blocks of random vectors are multiplied with what the blocks before them have
// left of the matrix; orthonormal vectors of the products span nearly the space
// of the leading singular vectors, the nearer for each multiplication with the
// matrix and its transpose ("power iterations"). Halko, Martinsson, Tropp:
// Finding Structure with Randomness, SIAM Review 2011; block by block, with the
// squares that are left known exactly: Yu, Gu, Li, Efficient Randomized
// Algorithms for the Fixed-Precision Low-Rank Matrix Approximation, SIAM J.
// Matrix Anal. Appl. 2018.
#ifndef ONNX_MEMOPT_LIB_REWRITE_RANDOM_SKETCH_H_
#define ONNX_MEMOPT_LIB_REWRITE_RANDOM_SKETCH_H_

#include <cstdint>
#include <optional>

#include "onnx_memopt/rewrite/low_rank.h"

namespace onnx_memopt::rewrite {

// Of A, or its transpose if A has more rows than columns: about basis *
// projected.
struct Sketch {
  Matrix basis;      // [shorter side, rank], orthonormal columns
  Matrix projected;  // [rank, longer side]
  double rest = 0;   // sum of the squares of A - basis * projected
};

// Ends when the sketch has `goal.energy` and `goal.min_rank`, when it is clear
// that ranks up to `goal.max_rank` cannot have that energy, or a little beyond
// that rank. nullopt if it would take more than half of all ranks. Two calls
// give the same sketch.
std::optional<Sketch> SketchOf(const Matrix& matrix, const SpectrumGoal& goal);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_RANDOM_SKETCH_H_
