#include "rewrite/random_sketch.h"

#include <algorithm>
#include <cstddef>
#include <random>

#include "Eigen/Core"
#include "Eigen/QR"

namespace onnx_memopt::rewrite {
namespace {

using Floats = Eigen::MatrixXf;

// Vectors that are found at a time.
constexpr int64_t kBlock = 96;
// Multiplications with the matrix and its transpose for each block.
constexpr int kPowerIterations = 2;
// Vectors beyond the rank that is wanted, so that the last of it are right.
constexpr int64_t kOversampling = 16;
// What blocks find falls from one to the next, but for what chance does.
constexpr double kSlack = 1.1;
// Sums of squares of float32 products are no more exact than this.
constexpr double kRounding = 1e-6;

double Squares(const Eigen::Ref<const Floats>& values) {
  double sum = 0;
  for (Eigen::Index i = 0; i < values.cols(); ++i) {
    sum += values.col(i).cast<double>().squaredNorm();
  }
  return sum;
}

Floats Orthonormal(const Floats& vectors) {
  const Eigen::HouseholderQR<Floats> qr(vectors);
  return qr.householderQ() * Floats::Identity(vectors.rows(), vectors.cols());
}

Matrix ToMatrix(const Eigen::Ref<const Floats>& values) {
  Matrix result{values.rows(), values.cols(), {}};
  result.elements.resize(static_cast<size_t>(values.size()));
  Eigen::Map<
      Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
      result.elements.data(), values.rows(), values.cols()) = values;
  return result;
}

// View is a map of the matrix with no more rows than columns.
template <typename View>
class Sketcher {
 public:
  Sketcher(const View& a, const SpectrumGoal& goal) : a_(a), goal_(goal) {
    for (Eigen::Index i = 0; i < a.rows(); ++i) {
      total_ += a.row(i).template cast<double>().squaredNorm();
    }
  }

  std::optional<Sketch> Run() {
    const int64_t most = a_.rows() / 2;
    const int64_t useful =
        std::min<int64_t>(std::max(goal_.max_rank, goal_.min_rank), a_.rows());
    const int64_t end = useful + kOversampling;
    end_ = end;
    while (rank_ < end && !IsDone()) {
      const int64_t count = std::min(kBlock, end - rank_);
      if (rank_ + count > most) return std::nullopt;
      const double found = AddBlock(count);
      const double reachable =
          captured_ +
          kSlack * found / static_cast<double>(count) *
              static_cast<double>(std::max<int64_t>(useful - rank_, 0));
      if (reachable < goal_.energy * total_) break;
    }
    Sketch result;
    result.rest = Rest();
    // One after the other, so that no more than one of them is there twice.
    result.basis = ToMatrix(basis_.leftCols(rank_));
    basis_.resize(0, 0);
    result.projected = ToMatrix(projected_.leftCols(rank_).transpose());
    return result;
  }

 private:
  // The squares that are left. A difference of sums is exact enough unless
  // little is left.
  double Rest() const {
    const double difference = total_ - captured_;
    if (difference > kRounding * total_) return difference;
    double sum = 0;
    for (int64_t row = 0; row < a_.rows(); row += kBlock) {
      const int64_t count = std::min(kBlock, a_.rows() - row);
      const Floats rest = a_.middleRows(row, count) -
                          basis_.block(row, 0, count, rank_) *
                              projected_.leftCols(rank_).transpose();
      sum += Squares(rest);
    }
    return sum;
  }

  bool IsDone() const {
    if (rank_ == 0 || rank_ < goal_.min_rank + kOversampling) return false;
    const double allowed = (1 - goal_.energy) * total_;
    if (total_ - captured_ > allowed + kRounding * total_) return false;
    return Rest() <= allowed;
  }

  // What the blocks so far have not found of a * x, and of a' * x.
  Floats Times(const Floats& x) const {
    Floats y = a_ * x;
    if (rank_ > 0) {
      const Floats inner = projected_.leftCols(rank_).transpose() * x;
      y.noalias() -= basis_.leftCols(rank_) * inner;
    }
    return y;
  }
  Floats TransposeTimes(const Floats& x) const {
    Floats y = a_.transpose() * x;
    if (rank_ > 0) {
      const Floats inner = basis_.leftCols(rank_).transpose() * x;
      y.noalias() -= projected_.leftCols(rank_) * inner;
    }
    return y;
  }

  // Returns the squares that it found.
  double AddBlock(int64_t count) {
    Floats random(a_.cols(), count);
    for (Eigen::Index j = 0; j < random.cols(); ++j) {
      for (Eigen::Index i = 0; i < random.rows(); ++i) {
        random(i, j) = (random_() & 1U) != 0 ? 1.0F : -1.0F;
      }
    }
    Floats q = Orthonormal(Times(random));
    for (int i = 0; i < kPowerIterations; ++i) {
      q = Orthonormal(Times(Orthonormal(TransposeTimes(q))));
    }
    if (rank_ > 0) {
      const Floats inner = basis_.leftCols(rank_).transpose() * q;
      q = Orthonormal(q - basis_.leftCols(rank_) * inner);
    }
    Reserve(rank_ + count);
    basis_.middleCols(rank_, count) = q;
    projected_.middleCols(rank_, count) = a_.transpose() * q;
    const double found = Squares(projected_.middleCols(rank_, count));
    rank_ += count;
    captured_ += found;
    return found;
  }

  void Reserve(int64_t count) {
    if (basis_.cols() >= count) return;
    const int64_t room =
        std::min(end_, std::max({2 * basis_.cols(), 4 * kBlock, count}));
    basis_.conservativeResize(a_.rows(), room);
    projected_.conservativeResize(a_.cols(), room);
  }

  const View a_;
  const SpectrumGoal goal_;
  // Any seed would do; a constant one writes the same file each time.
  // NOLINTNEXTLINE(bugprone-random-generator-seed)
  std::mt19937_64 random_{20110509};
  double total_ = 0;
  double captured_ = 0;
  int64_t rank_ = 0;
  int64_t end_ = 0;  // the most vectors that there will be
  Floats basis_;
  Floats projected_;  // transposed: a column for each vector
};

}  // namespace

std::optional<Sketch> SketchOf(const Matrix& matrix, const SpectrumGoal& goal) {
  using Rows =
      Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const float* data = matrix.elements.data();
  if (matrix.rows < matrix.columns) {
    const Eigen::Map<const Rows> view(data, matrix.rows, matrix.columns);
    return Sketcher(view, goal).Run();
  }
  // Rows one after the other are the columns of the transpose.
  const Eigen::Map<const Floats> view(data, matrix.columns, matrix.rows);
  return Sketcher(view, goal).Run();
}

}  // namespace onnx_memopt::rewrite
