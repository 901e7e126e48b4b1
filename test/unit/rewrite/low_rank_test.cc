#include "onnx_memopt/rewrite/low_rank.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gtest/gtest.h"
#include "support/random_graph.h"

namespace onnx_memopt::rewrite {
namespace {

Matrix RandomMatrix(int64_t rows, int64_t columns, uint64_t seed) {
  testing::Random random(seed);
  Matrix matrix{rows, columns, {}};
  for (int64_t i = 0; i < rows * columns; ++i) {
    matrix.elements.push_back(static_cast<float>(random.Below(2001) - 1000) /
                              1000);
  }
  return matrix;
}

Matrix Product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, {}};
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < b.columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.columns; ++k) {
        sum += static_cast<double>(
                   a.elements[static_cast<size_t>(i * a.columns + k)]) *
               b.elements[static_cast<size_t>(k * b.columns + j)];
      }
      c.elements.push_back(static_cast<float>(sum));
    }
  }
  return c;
}

TEST(LowRankTest, DiagonalHasItsSquaresAsEnergies) {
  const Matrix matrix{3, 2, {0, 3, 0, 0, -2, 0}};
  const Spectrum spectrum = Spectrum::Of(matrix);
  ASSERT_EQ(spectrum.energies().size(), 2U);
  EXPECT_NEAR(spectrum.energies()[0], 9, 1e-12);
  EXPECT_NEAR(spectrum.energies()[1], 4, 1e-12);
  EXPECT_NEAR(spectrum.Energy(1), 9.0 / 13, 1e-12);
  EXPECT_EQ(spectrum.RankFor(0.6), 1);
  EXPECT_EQ(spectrum.RankFor(0.7), 2);
  // What is left out is the smaller one.
  EXPECT_NEAR(RelativeError(matrix, spectrum.Take(matrix, 1)),
              std::sqrt(4.0 / 13), 1e-6);
}

TEST(LowRankTest, KnownRankComesBackAtRoundingError) {
  for (const auto& [rows, columns] : {std::pair(40, 90), std::pair(90, 40)}) {
    for (int64_t rank : {1, 7, 39}) {
      const Matrix matrix =
          Product(RandomMatrix(rows, rank, 1), RandomMatrix(rank, columns, 2));
      const Spectrum spectrum = Spectrum::Of(matrix);
      EXPECT_EQ(spectrum.RankFor(1 - 1e-11), rank);
      const Factors factors = spectrum.Take(matrix, rank);
      EXPECT_EQ(factors.left.rows, rows);
      EXPECT_EQ(factors.left.columns, rank);
      EXPECT_EQ(factors.right.columns, columns);
      EXPECT_LE(RelativeError(matrix, factors), 3e-7);
    }
  }
}

// Of all ranks the error is the root of what is left out.
TEST(LowRankTest, ErrorIsTheEnergyThatIsLeftOut) {
  const Matrix matrix = RandomMatrix(30, 20, 3);
  const Spectrum spectrum = Spectrum::Of(matrix);
  for (int64_t rank = 1; rank < 20; ++rank) {
    EXPECT_NEAR(RelativeError(matrix, spectrum.Take(matrix, rank)),
                std::sqrt(1 - spectrum.Energy(rank)), 1e-6);
    EXPECT_EQ(spectrum.RankFor(spectrum.Energy(rank)), rank);
  }
}

TEST(LowRankTest, ZerosAreOfRankOne) {
  const Matrix matrix{2, 2, {0, 0, 0, 0}};
  const Spectrum spectrum = Spectrum::Of(matrix);
  EXPECT_EQ(spectrum.RankFor(1), 1);
  EXPECT_EQ(spectrum.Energy(1), 1);
  EXPECT_EQ(RelativeError(matrix, spectrum.Take(matrix, 1)), 0);
}

// Singular values that halve every ten ranks, turned by random vectors.
Matrix Decaying(int64_t rows, int64_t columns, int64_t rank) {
  Matrix left = RandomMatrix(rows, rank, 4);
  const Matrix right = RandomMatrix(rank, columns, 5);
  for (int64_t i = 0; i < rows * rank; ++i) {
    left.elements[static_cast<size_t>(i)] *=
        std::exp2(-static_cast<float>(i % rank) / 10);
  }
  return Product(left, right);
}

// Sides beyond 512 are sketched.
TEST(LowRankTest, SketchFindsAKnownRank) {
  for (const auto& [rows, columns] :
       {std::pair(530, 700), std::pair(700, 530)}) {
    const Matrix matrix =
        Product(RandomMatrix(rows, 120, 1), RandomMatrix(120, columns, 2));
    const Spectrum spectrum = Spectrum::Of(matrix, {.energy = 1 - 1e-10});
    // Not all was looked at.
    EXPECT_LT(spectrum.energies().size(), 300U);
    EXPECT_EQ(spectrum.RankFor(1 - 1e-10), 120);
    EXPECT_LE(RelativeError(matrix, spectrum.Take(matrix, 120)), 1e-6);
  }
}

TEST(LowRankTest, SketchNeedsHardlyMoreThanTheBestRank) {
  const Matrix matrix = Decaying(600, 520, 300);
  const Spectrum exact = Spectrum::Of(matrix, {.min_rank = 500});
  ASSERT_EQ(exact.energies().size(), 520U);
  for (const double energy : {0.9, 0.99, 0.9999}) {
    const Spectrum sketch = Spectrum::Of(matrix, {.energy = energy});
    ASSERT_LT(sketch.energies().size(), 300U);
    const int64_t rank = sketch.RankFor(energy);
    EXPECT_GE(rank, exact.RankFor(energy));
    EXPECT_LE(rank, exact.RankFor(energy) + 1);
    // What it says of itself is so.
    EXPECT_NEAR(RelativeError(matrix, sketch.Take(matrix, rank)),
                std::sqrt(1 - sketch.Energy(rank)), 1e-5);
    EXPECT_GE(sketch.Energy(rank), energy - 1e-12);
  }
}

TEST(LowRankTest, SketchOfARankKnowsThatRank) {
  const Matrix matrix = Decaying(600, 520, 300);
  const Spectrum spectrum =
      Spectrum::Of(matrix, {.energy = 0, .max_rank = 40, .min_rank = 40});
  EXPECT_EQ(spectrum.energies().size(), 56U);
  EXPECT_NEAR(spectrum.Energy(40),
              Spectrum::Of(matrix, {.min_rank = 500}).Energy(40), 1e-5);
}

// A random matrix has about the same energy in all ranks: after one block it
// is clear that 100 ranks do not have half of it.
TEST(LowRankTest, SketchGivesUpEarly) {
  const Matrix matrix = RandomMatrix(700, 600, 6);
  const Spectrum spectrum =
      Spectrum::Of(matrix, {.energy = 0.5, .max_rank = 100});
  EXPECT_LE(spectrum.energies().size(), 96U);
  EXPECT_EQ(spectrum.RankFor(0.5), 600);
  EXPECT_EQ(spectrum.Energy(600), 1);
}

}  // namespace
}  // namespace onnx_memopt::rewrite
