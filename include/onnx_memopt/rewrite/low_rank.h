// A matrix as the product of two of a lower rank.
//
//   const Spectrum spectrum = Spectrum::Of(matrix, {.energy = 0.99});
//   const int64_t rank = spectrum.RankFor(/*energy=*/0.99);
//   const Factors f = spectrum.Take(matrix, rank);  // about left * right
//
// Small matrices, and those of which more than half of all ranks are needed,
// are decomposed exactly: that is the decomposition of the smaller Gram matrix,
// in double precision. Singular values below 1e-8 of the largest drown in
// rounding, which is less than the rounding of float32 elements.
//
// Of large ones a random sketch finds the leading singular vectors, a block of
// them at a time until they hold the energy that is wanted (random_sketch.h).
#ifndef ONNX_MEMOPT_REWRITE_LOW_RANK_H_
#define ONNX_MEMOPT_REWRITE_LOW_RANK_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace onnx_memopt::rewrite {

// Row-major.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> elements;
};

Matrix Transposed(const Matrix& matrix);

// left is [rows, rank], right [rank, columns]; both of about the same scale.
struct Factors {
  Matrix left;
  Matrix right;
};

// What is asked of a spectrum; no more of it need be known.
struct SpectrumGoal {
  // Part of the sum of squares that ranks up to `max_rank` should have. Where
  // they cannot, nothing is asked.
  double energy = 1;
  // Higher ranks are of no use.
  int64_t max_rank = INT64_MAX;
  // Ranks up to this are to be known, once the energy can be had at all.
  int64_t min_rank = 0;
  // Factors are to be taken, not energies alone.
  bool with_vectors = true;
};

class Spectrum {
 public:
  // At least one row and one column, and all elements finite.
  static Spectrum Of(const Matrix& matrix, const SpectrumGoal& goal = {});
  Spectrum(Spectrum&&) noexcept;
  Spectrum& operator=(Spectrum&&) noexcept;
  ~Spectrum();

  // Squares of the leading singular values, the largest first; none is
  // negative. Those that are not here are not known.
  const std::vector<double>& energies() const { return energies_; }
  // The part of the sum of all squares that the first `rank` have; 1 for a
  // matrix of zeros.
  double Energy(int64_t rank) const;
  // The part of the sum of all squares that is left without `kept` of it.
  double ErrorLeft(double kept) const;
  // The smallest rank, at least 1, of which Energy is no less than this; the
  // full rank if it is not among those that are known.
  int64_t RankFor(double energy) const;
  // Of the matrix that this was computed from: the best factors of a rank of
  // which the energy is known.
  Factors Take(const Matrix& matrix, int64_t rank) const;

 private:
  struct Vectors;
  Spectrum();

  static Spectrum Exact(const Matrix& matrix, bool with_vectors);

  std::vector<double> energies_;
  double total_ = 0;  // of all squares, known or not
  int64_t full_rank_ = 0;
  std::unique_ptr<Vectors> vectors_;
};

// ||matrix - left * right|| / ||matrix||, by all elements; 0 for a matrix of
// zeros that stays one.
double RelativeError(const Matrix& matrix, const Factors& factors);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_LOW_RANK_H_
