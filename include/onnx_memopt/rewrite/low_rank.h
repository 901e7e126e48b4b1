// A matrix as the product of two of a lower rank.
//
//   const Spectrum spectrum = Spectrum::Of(matrix);
//   const int64_t rank = spectrum.RankFor(/*energy=*/0.99);
//   const Factors f = spectrum.Take(matrix, rank);  // about left * right
//
// The decomposition is that of the smaller Gram matrix, in double precision:
// singular values below 1e-8 of the largest drown in rounding, which is less
// than the rounding of float32 elements.
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

class Spectrum {
 public:
  // At least one row and one column, and all elements finite.
  static Spectrum Of(const Matrix& matrix);
  Spectrum(Spectrum&&) noexcept;
  Spectrum& operator=(Spectrum&&) noexcept;
  ~Spectrum();

  // Squares of the singular values, the largest first; none is negative.
  const std::vector<double>& energies() const { return energies_; }
  // The part of the sum of all squares that the first `rank` have; 1 for a
  // matrix of zeros.
  double Energy(int64_t rank) const;
  // The smallest rank, at least 1, of which Energy is no less than this.
  int64_t RankFor(double energy) const;
  // Of the matrix that this was computed from: the best factors of this rank.
  Factors Take(const Matrix& matrix, int64_t rank) const;

 private:
  struct Vectors;
  Spectrum();

  std::vector<double> energies_;
  std::unique_ptr<Vectors> vectors_;
};

// ||matrix - left * right|| / ||matrix||, by all elements; 0 for a matrix of
// zeros that stays one.
double RelativeError(const Matrix& matrix, const Factors& factors);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_LOW_RANK_H_
