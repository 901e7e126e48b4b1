#include "onnx_memopt/ir/dim.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onnx_memopt::ir {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

const Dim kB = Dim::Symbol("b");
const Dim kH = Dim::Symbol("h");
const Dim kS = Dim::Symbol("s");

// Chained arithmetic on formulas that are known to be small.
Dim operator+(const Dim& a, const Dim& b) { return Add(a, b).value(); }
Dim operator-(const Dim& a, const Dim& b) { return Sub(a, b).value(); }
Dim operator*(const Dim& a, const Dim& b) { return Mul(a, b).value(); }
Dim Floor(const Dim& a, const Dim& b) { return FloorDiv(a, b).value(); }
std::string Text(const std::optional<Dim>& dim) {
  return dim ? dim->ToString() : "none";
}

TEST(DimTest, PrintsHighestDegreeFirst) {
  EXPECT_EQ((Dim(8) + Dim(16) * kS + Dim(4) * kB * kS * kS).ToString(),
            "4*b*s^2 + 16*s + 8");
  EXPECT_EQ((Dim(3) - kB).ToString(), "-b + 3");
  EXPECT_EQ((kB - Dim(2) * kS).ToString(), "b - 2*s");
  EXPECT_EQ(Dim(-5).ToString(), "-5");
  EXPECT_EQ(Dim().ToString(), "0");
  EXPECT_EQ(Text(Mul(Dim(kMinInt), kB)), "-9223372036854775808*b");
}

TEST(DimTest, EqualFormulasCompareEqual) {
  EXPECT_EQ((kB + Dim(1)) * (kB - Dim(1)), kB * kB - Dim(1));
  EXPECT_EQ(kB * kS, kS * kB);
  EXPECT_EQ(kB - kB, Dim(0));
  EXPECT_TRUE((kB - kB + Dim(3)).is_constant());
  EXPECT_NE(kB, kS);
  EXPECT_NE(kB, Dim(1));
  EXPECT_EQ(Floor(kH + Dim(1), Dim(2)), CeilDiv(kH, Dim(2)).value());
  EXPECT_EQ(Floor(kH - Dim(1), Dim(2)) + Dim(1), Floor(kH + Dim(1), Dim(2)));
}

TEST(DimTest, FloorDivSimplifies) {
  EXPECT_EQ(Floor(Dim(4) * kB + Dim(8), Dim(4)).ToString(), "b + 2");
  EXPECT_EQ(Floor(kB + Dim(14), Dim(7)).ToString(), "floor(b/7) + 2");
  EXPECT_EQ(Floor(Dim(2) * kH + Dim(1), Dim(4)).ToString(), "floor(h/2)");
  EXPECT_EQ(Floor(Floor(kH, Dim(2)), Dim(3)).ToString(), "floor(h/6)");
  EXPECT_EQ(Floor(Floor(kH + Dim(1), Dim(2)) + Dim(1), Dim(2)).ToString(),
            "floor((h + 3)/4)");
  EXPECT_EQ(Floor(kB * kS + Dim(2) * kS, kS).ToString(), "b + 2");
  EXPECT_EQ(Floor(kH + Dim(2) * kS, kS).ToString(), "floor(h/s) + 2");
  EXPECT_EQ(Floor(Dim(6) * kB * kS, Dim(4) * kS).ToString(), "b + floor(b/2)");
  EXPECT_EQ(Floor(kS * kB + kB - Dim(1), kB).ToString(), "s");
  EXPECT_EQ(Floor(Dim(2) * kB, Dim(-2)).ToString(), "-b");
  EXPECT_EQ(Floor(kB, kS * kH).ToString(), "floor(b/(h*s))");
  EXPECT_EQ(Floor(kB, kS + Dim(1)).ToString(), "floor(b/(s + 1))");
}

TEST(DimTest, DividesNumbersTowardsMinusInfinity) {
  EXPECT_EQ(Floor(Dim(-7), Dim(2)), Dim(-4));
  EXPECT_EQ(Floor(Dim(7), Dim(-2)), Dim(-4));
  EXPECT_EQ(CeilDiv(Dim(-7), Dim(2)), Dim(-3));
  EXPECT_EQ(Mod(Dim(-7), Dim(3)), Dim(2));
  EXPECT_EQ(FloorDiv(Dim(1), Dim(0)), std::nullopt);
  EXPECT_EQ(FloorDiv(kB, Dim(0)), std::nullopt);
  EXPECT_EQ(Mod(kB, Dim(0)), std::nullopt);
  EXPECT_EQ(DivideExact(kB, Dim(0)), std::nullopt);
  EXPECT_EQ(FloorDiv(Dim(kMinInt), Dim(-1)), std::nullopt);
}

TEST(DimTest, DividesExactly) {
  EXPECT_EQ(Text(DivideExact(kB * kS * Dim(768), kS * Dim(64))), "12*b");
  EXPECT_EQ(Text(DivideExact(kB * kB - kS * kS, kB + kS)), "b - s");
  EXPECT_EQ(Text(DivideExact(kB * kS + kB * Dim(2), kS + Dim(2))), "b");
  EXPECT_EQ(DivideExact(kB * kS, Dim(2)), std::nullopt);
  EXPECT_EQ(DivideExact(kB, kS), std::nullopt);
  EXPECT_EQ(DivideExact(kB * kB + Dim(1), kB + Dim(1)), std::nullopt);
  EXPECT_EQ(Text(DivideExact(Dim(0), kB)), "0");
}

TEST(DimTest, MaxAndMinDropWhatNeverWins) {
  EXPECT_EQ(Text(Max(kB + kS, kS)), "b + s");
  EXPECT_EQ(Text(Min(kB + kS, kS)), "s");
  EXPECT_EQ(Text(Max(kB, Dim(1))), "b");
  EXPECT_EQ(Text(Min(kB, Dim(1))), "1");
  EXPECT_EQ(Text(Max(kB, kS)), "max(b, s)");
  EXPECT_EQ(Max(kB, kS), Max(kS, kB));
  EXPECT_EQ(Text(Max(Max(kB, kS).value(), kB)), "max(b, s)");
  EXPECT_EQ(Text(Max(kS, Min(kS, Dim(1024)).value())), "s");
  EXPECT_EQ(Text(Max(kH - Floor(kH, Dim(2)), Dim(0))), "h - floor(h/2)");
}

TEST(DimTest, ProvesLowerBounds) {
  EXPECT_TRUE(KnownAtLeast(kB, 1));
  EXPECT_FALSE(KnownAtLeast(kB, 2));
  EXPECT_TRUE(KnownAtLeast(kB * kS - kB, 0));
  EXPECT_FALSE(KnownAtLeast(kB - kS, 0));
  EXPECT_TRUE(KnownAtLeast(kH - Floor(kH, Dim(2)), 0));
  EXPECT_TRUE(KnownAtLeast(kH - Floor(kH, Dim(2)), 1));
  EXPECT_TRUE(KnownAtLeast(Dim(2) * Floor(kH + Dim(1), Dim(2)) - kH, 0));
  EXPECT_TRUE(KnownAtLeast(kH - Min(kH, Dim(5)).value(), 0));
  EXPECT_FALSE(KnownAtLeast(kH - Min(kH, Dim(5)).value(), 1));
  EXPECT_TRUE(KnownAtLeast(Max(kB, kS).value() - kB, 0));
  EXPECT_TRUE(KnownAtLeast(kB + kS - Max(kB, kS).value(), 1));
  EXPECT_TRUE(KnownAtLeastFromZero(kB, 0));
  EXPECT_FALSE(KnownAtLeastFromZero(kB, 1));
  EXPECT_FALSE(KnownAtLeastFromZero(kB * kS - kB, 0));
}

TEST(DimTest, BindsNames) {
  const Dim dim = kB * Floor(kH - Dim(1), Dim(2)) + Max(kS, Dim(7)).value();
  EXPECT_EQ(dim.Evaluate({{"b", 3}, {"h", 8}, {"s", 2}}), 3 * 3 + 7);
  EXPECT_EQ(dim.Evaluate({{"b", 3}, {"h", 8}}), std::nullopt);
  EXPECT_EQ(Text(dim.Substitute({{"h", 9}, {"s", 2}})), "4*b + 7");
  absl::btree_set<std::string> names;
  dim.CollectSymbols(&names);
  EXPECT_THAT(names, ElementsAre("b", "h", "s"));
}

TEST(DimTest, OverflowIsReported) {
  EXPECT_EQ(Add(Dim(kMaxInt), Dim(1)), std::nullopt);
  EXPECT_EQ(Mul(Dim(kMinInt), Dim(-1)), std::nullopt);
  EXPECT_EQ(Mul(Dim(kMinInt) * kB, Dim(-1)), std::nullopt);
  EXPECT_EQ(Add(Dim(kMaxInt) * kB, kB), std::nullopt);
  EXPECT_EQ((kB * kB).Evaluate({{"b", kMaxInt}}), std::nullopt);
  EXPECT_EQ(Text(FloorDiv(Dim(kMinInt) * kB, Dim(3))),
            "-3074457345618258603*b + floor(b/3)");
}

TEST(DimTest, HostileGrowthEnds) {
  std::optional<Dim> sum = Dim(0);
  for (int i = 0; sum && i < 100'000; ++i) {
    sum = Add(*sum, Dim::Symbol(absl::StrCat("n", i)));
  }
  EXPECT_EQ(sum, std::nullopt);
  std::optional<Dim> power = kB;
  for (int i = 0; power && i < 100'000; ++i) power = Mul(*power, kB + Dim(1));
  EXPECT_EQ(power, std::nullopt);
  std::optional<Dim> nested = kB;
  for (int i = 0; nested && i < 100'000; ++i) {
    nested = Mul(*nested, *nested);
    if (nested) nested = Add(*nested, kS);
    if (nested) nested = FloorDiv(*nested, kB + Dim(2));
  }
  EXPECT_EQ(nested, std::nullopt);
  std::optional<Dim> extreme = kB;
  for (int i = 0; extreme && i < 100'000; ++i) {
    extreme = Max(*extreme, Dim::Symbol(absl::StrCat("n", i)));
  }
  EXPECT_EQ(extreme, std::nullopt);
  EXPECT_EQ(Add(Dim::Symbol(std::string(1 << 20, 'x')), Dim(1)), std::nullopt);
}

// --- Random formulas: every operation commutes with evaluation. ---

class RandomDims {
 public:
  explicit RandomDims(uint32_t seed) : random_(seed) {}

  int64_t Number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Dim Make(int depth) {
    if (depth == 0) {
      if (Number(0, 3) == 0) return Dim(Number(-9, 9));
      return std::vector<Dim>{kB, kH, kS}[static_cast<size_t>(Number(0, 2))];
    }
    const Dim a = Make(depth - 1);
    const Dim b = Make(static_cast<int>(Number(0, depth - 1)));
    std::optional<Dim> result;
    switch (Number(0, 7)) {
      case 0:
      case 1:
        result = Add(a, b);
        break;
      case 2:
        result = Sub(a, b);
        break;
      case 3:
        result = Mul(a, b);
        break;
      case 4:
        result = FloorDiv(a, Dim(Number(1, 6)));
        break;
      case 5:
        result = FloorDiv(a, b);
        break;
      case 6:
        result = Max(a, b);
        break;
      default:
        result = Min(a, b);
        break;
    }
    return result.value_or(a);
  }

  Bindings Bind() {
    return {{"b", Number(1, 12)}, {"h", Number(1, 40)}, {"s", Number(1, 9)}};
  }

 private:
  std::mt19937 random_;
};

// Compares `symbolic` with `expected` at `bindings`; a quotient by what is 0
// there has no value, so nothing is expected then.
void ExpectValue(const std::optional<Dim>& symbolic,
                 const std::optional<Dim>& expected, const Bindings& bindings,
                 absl::string_view what) {
  if (!symbolic || !expected) return;
  const std::optional<int64_t> value = symbolic->Evaluate(bindings);
  if (!value) return;
  EXPECT_EQ(*value, expected->constant())
      << std::string(what) << " gave " << symbolic->ToString()
      << " at b=" << bindings.at("b") << " h=" << bindings.at("h")
      << " s=" << bindings.at("s");
}

TEST(DimPropertyTest, OperationsCommuteWithEvaluation) {
  RandomDims random(1);
  int compared = 0;
  for (int round = 0; round < 5000; ++round) {
    const Dim a = random.Make(static_cast<int>(random.Number(0, 4)));
    const Dim b = random.Make(static_cast<int>(random.Number(0, 3)));
    const Bindings bindings = random.Bind();
    const std::optional<int64_t> x = a.Evaluate(bindings);
    const std::optional<int64_t> y = b.Evaluate(bindings);
    if (!x || !y) continue;
    ++compared;
    const Dim dx(*x);
    const Dim dy(*y);
    SCOPED_TRACE(absl::StrCat(a.ToString(), " and ", b.ToString()));
    ExpectValue(Add(a, b), Add(dx, dy), bindings, "add");
    ExpectValue(Sub(a, b), Sub(dx, dy), bindings, "sub");
    ExpectValue(Mul(a, b), Mul(dx, dy), bindings, "mul");
    ExpectValue(FloorDiv(a, b), FloorDiv(dx, dy), bindings, "floor");
    ExpectValue(CeilDiv(a, b), CeilDiv(dx, dy), bindings, "ceil");
    ExpectValue(Mod(a, b), Mod(dx, dy), bindings, "mod");
    ExpectValue(Max(a, b), Max(dx, dy), bindings, "max");
    ExpectValue(Min(a, b), Min(dx, dy), bindings, "min");
    if (const std::optional<Dim> exact = DivideExact(a, b)) {
      EXPECT_EQ(Mul(*exact, b), a);
    }
    if (const std::optional<Dim> product = Mul(a, b); product && b != Dim(0)) {
      EXPECT_EQ(DivideExact(*product, b), a);
    }
    for (const int64_t bound : {-3, 0, 1, 2, 5}) {
      if (KnownAtLeast(a, bound)) {
        EXPECT_GE(*x, bound);
      }
    }
  }
  EXPECT_GT(compared, 2500);
}

TEST(DimPropertyTest, BoundsFromZeroHoldAtZero) {
  RandomDims random(2);
  int proved = 0;
  for (int round = 0; round < 5000; ++round) {
    const Dim a = random.Make(static_cast<int>(random.Number(0, 3)));
    // Simplified Max and Min assume names >= 1, so only formulas without.
    if (a.ToString().find('m') != std::string::npos) continue;
    const Bindings bindings = {{"b", random.Number(0, 3)},
                               {"h", random.Number(0, 3)},
                               {"s", random.Number(0, 3)}};
    const std::optional<int64_t> x = a.Evaluate(bindings);
    if (!x) continue;
    for (const int64_t bound : {-3, 0, 1, 2, 5}) {
      if (!a.is_constant() && KnownAtLeastFromZero(a, bound)) {
        ++proved;
        EXPECT_GE(*x, bound) << a.ToString();
      }
    }
  }
  EXPECT_GT(proved, 500);
}

TEST(DimPropertyTest, SubstitutionInStepsIsEvaluation) {
  RandomDims random(3);
  int compared = 0;
  for (int round = 0; round < 5000; ++round) {
    const Dim a = random.Make(static_cast<int>(random.Number(0, 4)));
    const Bindings bindings = random.Bind();
    const std::optional<int64_t> value = a.Evaluate(bindings);
    const std::optional<Dim> partial =
        a.Substitute({{"h", bindings.at("h")}, {"b", bindings.at("b")}});
    if (!value || !partial) continue;
    ++compared;
    EXPECT_EQ(partial->Evaluate({{"s", bindings.at("s")}}), value)
        << a.ToString() << " became " << partial->ToString();
    EXPECT_EQ(a.Substitute({}), a) << a.ToString();
    EXPECT_EQ(a.Substitute(bindings), Dim(*value)) << a.ToString();
  }
  EXPECT_GT(compared, 2500);
}

}  // namespace
}  // namespace onnx_memopt::ir
