#include "onnx_memopt/rewrite/low_rank.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include "Eigen/Core"
#include "Eigen/Eigenvalues"
#include "rewrite/matrix_view.h"
#include "rewrite/random_sketch.h"

namespace onnx_memopt::rewrite {
namespace {

// Rows, and where both are many also columns, that are widened to double at a
// time.
constexpr int64_t kRows = 256;
constexpr int64_t kColumns = 1024;
// Up to this side a decomposition takes about a second.
constexpr int64_t kExactSide = 512;

Matrix Zeros(int64_t rows, int64_t columns) {
  return {rows, columns,
          std::vector<float>(static_cast<size_t>(rows * columns))};
}

// Transpose times matrix, or matrix times transpose where that is smaller.
Eigen::MatrixXd Gram(const Matrix& matrix) {
  const ConstMap a = View(matrix);
  if (matrix.columns <= matrix.rows) {
    Eigen::MatrixXd gram =
        Eigen::MatrixXd::Zero(matrix.columns, matrix.columns);
    for (int64_t row = 0; row < matrix.rows; row += kRows) {
      const Eigen::MatrixXd part =
          a.middleRows(row, std::min(kRows, matrix.rows - row)).cast<double>();
      gram.selfadjointView<Eigen::Lower>().rankUpdate(part.transpose());
    }
    return gram;
  }
  Eigen::MatrixXd gram = Eigen::MatrixXd::Zero(matrix.rows, matrix.rows);
  for (int64_t column = 0; column < matrix.columns; column += kRows) {
    const Eigen::MatrixXd part =
        a.middleCols(column, std::min(kRows, matrix.columns - column))
            .cast<double>();
    gram.selfadjointView<Eigen::Lower>().rankUpdate(part);
  }
  return gram;
}

// Fills in eigenvalues, the largest first, and returns the vectors if wanted.
Eigen::MatrixXd Decompose(const Eigen::MatrixXd& gram, bool with_vectors,
                          std::vector<double>* energies) {
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      gram, with_vectors ? Eigen::ComputeEigenvectors : Eigen::EigenvaluesOnly);
  const Eigen::VectorXd& values = solver.eigenvalues();  // ascending
  energies->resize(static_cast<size_t>(values.size()));
  for (Eigen::Index i = 0; i < values.size(); ++i) {
    (*energies)[static_cast<size_t>(values.size() - 1 - i)] =
        std::max(values[i], 0.0);
  }
  if (!with_vectors) return {};
  return solver.eigenvectors().rowwise().reverse();
}

}  // namespace

struct Spectrum::Vectors {
  // Of the smaller side, a column each, in the order of the energies.
  Eigen::MatrixXd columns;
};

Spectrum::Spectrum() : vectors_(std::make_unique<Vectors>()) {}
Spectrum::Spectrum(Spectrum&&) noexcept = default;
Spectrum& Spectrum::operator=(Spectrum&&) noexcept = default;
Spectrum::~Spectrum() = default;

Matrix Transposed(const Matrix& matrix) {
  return ToMatrix(View(matrix).transpose());
}

Spectrum Spectrum::Of(const Matrix& matrix, const SpectrumGoal& goal) {
  assert(matrix.rows > 0 && matrix.columns > 0 && "a matrix has elements");
  const int64_t side = std::min(matrix.rows, matrix.columns);
  if (side <= kExactSide) return Exact(matrix, goal.with_vectors);
  const std::optional<Sketch> sketch = SketchOf(matrix, goal);
  if (!sketch) return Exact(matrix, goal.with_vectors);
  Spectrum result;
  result.full_rank_ = side;
  // B B' has the squares of the singular values of Q B.
  const Eigen::MatrixXd turn =
      Decompose(Gram(sketch->projected), goal.with_vectors, &result.energies_);
  result.total_ = sketch->rest;
  for (const double value : result.energies_) result.total_ += value;
  if (goal.with_vectors) {
    Eigen::MatrixXd& columns = result.vectors_->columns;
    columns.resize(side, turn.cols());
    for (int64_t row = 0; row < side; row += kRows) {
      const int64_t count = std::min(kRows, side - row);
      columns.middleRows(row, count) =
          View(sketch->basis).middleRows(row, count).cast<double>() * turn;
    }
  }
  return result;
}

Spectrum Spectrum::Exact(const Matrix& matrix, bool with_vectors) {
  Spectrum result;
  result.full_rank_ = std::min(matrix.rows, matrix.columns);
  result.vectors_->columns =
      Decompose(Gram(matrix), with_vectors, &result.energies_);
  for (const double value : result.energies_) result.total_ += value;
  return result;
}

double Spectrum::Energy(int64_t rank) const {
  if (rank >= full_rank_ || total_ <= 0) return 1;
  double kept = 0;
  for (size_t i = 0; i < energies_.size(); ++i) {
    if (static_cast<int64_t>(i) < rank) kept += energies_[i];
  }
  return kept / total_;
}

double Spectrum::ErrorLeft(double kept) const {
  return total_ > 0 ? std::max(0.0, 1 - kept / total_) : 0;
}

int64_t Spectrum::RankFor(double energy) const {
  double rest = total_;
  for (size_t i = 0; i < energies_.size(); ++i) {
    rest -= energies_[i];
    // What is left out is compared, so that rounding of the sum does not ask
    // for ranks of nothing.
    if (rest <= (1 - energy) * total_ + 1e-15 * total_) {
      return static_cast<int64_t>(i) + 1;
    }
  }
  return full_rank_;
}

Factors Spectrum::Take(const Matrix& matrix, int64_t rank) const {
  assert(rank >= 1 && rank <= static_cast<int64_t>(energies_.size()) &&
         "a rank of the matrix");
  assert(vectors_->columns.cols() >= rank && "vectors were asked for");
  const ConstMap a = View(matrix);
  const auto vectors = vectors_->columns.leftCols(rank);
  // The square roots of the singular values go to both sides, so that neither
  // has numbers far from one.
  Eigen::VectorXd scale(rank);
  for (int64_t i = 0; i < rank; ++i) {
    const double value = std::pow(energies_[static_cast<size_t>(i)], 0.25);
    scale[i] = value > 0 ? value : 1;
  }
  const Eigen::VectorXd inverse = scale.cwiseInverse();
  Factors factors{Zeros(matrix.rows, rank), Zeros(rank, matrix.columns)};
  Map left = MutableView(&factors.left);
  Map right = MutableView(&factors.right);
  if (matrix.columns <= matrix.rows) {
    // A is about (A V / s) (s V').
    for (int64_t row = 0; row < matrix.rows; row += kRows) {
      const int64_t count = std::min(kRows, matrix.rows - row);
      left.middleRows(row, count) = (a.middleRows(row, count).cast<double>() *
                                     vectors * inverse.asDiagonal())
                                        .cast<float>();
    }
    right = (scale.asDiagonal() * vectors.transpose()).cast<float>();
    return factors;
  }
  for (int64_t column = 0; column < matrix.columns; column += kRows) {
    const int64_t count = std::min(kRows, matrix.columns - column);
    right.middleCols(column, count) =
        (inverse.asDiagonal() * vectors.transpose() *
         a.middleCols(column, count).cast<double>())
            .cast<float>();
  }
  left = (vectors * scale.asDiagonal()).cast<float>();
  return factors;
}

double RelativeError(const Matrix& matrix, const Factors& factors) {
  const ConstMap a = View(matrix);
  const ConstMap left = View(factors.left);
  double error = 0;
  double total = 0;
  for (int64_t column = 0; column < matrix.columns; column += kColumns) {
    const int64_t width = std::min(kColumns, matrix.columns - column);
    const Eigen::MatrixXd right =
        View(factors.right).middleCols(column, width).cast<double>();
    for (int64_t row = 0; row < matrix.rows; row += kRows) {
      const int64_t count = std::min(kRows, matrix.rows - row);
      const Eigen::MatrixXd part =
          a.block(row, column, count, width).cast<double>();
      total += part.squaredNorm();
      error += (part - left.middleRows(row, count).cast<double>() * right)
                   .squaredNorm();
    }
  }
  return total > 0 ? std::sqrt(error / total) : std::sqrt(error);
}

}  // namespace onnx_memopt::rewrite
