#include "onnx_memopt/ir/flops.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"  // graph.h names absl::StatusOr
#include "gtest/gtest.h"
#include "onnx_memopt/ir/attribute.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir {
namespace {

using Dims = std::vector<std::optional<Dim>>;
using Ints = std::vector<int64_t>;

// One node whose operands and results are float tensors of the given shapes.
class OneNode {
 public:
  OneNode(const char* op, const char* domain = "") {
    node_.op_type = op;
    node_.domain = domain;
  }
  OneNode& Operand(const Dims& dims) {
    node_.operands.push_back(Add(dims));
    return *this;
  }
  OneNode& NoOperand() {
    node_.operands.push_back(kNoValue);
    return *this;
  }
  OneNode& Integers(const std::vector<int64_t>& integers) {
    const ValueId id = Add({static_cast<int64_t>(integers.size())});
    auto contents = std::make_shared<Contents>();
    contents->dims = {static_cast<int64_t>(integers.size())};
    for (const int64_t integer : integers) {
      contents->elements.push_back(Element::Integer(integer));
    }
    graph_.mutable_value(id).contents = std::move(contents);
    node_.operands.push_back(id);
    return *this;
  }
  OneNode& OfUnknownRank() {
    Value value;
    value.type = Type::Tensor(ElementType::kFloat, std::nullopt);
    node_.operands.push_back(graph_.AddValue(std::move(value)));
    return *this;
  }
  OneNode& Result(const Dims& dims) {
    node_.results.push_back(Add(dims));
    return *this;
  }
  OneNode& With(const char* name, AttributeValue value) {
    node_.attributes.push_back({name, std::move(value)});
    return *this;
  }
  // By the rule in the op table.
  std::optional<Dim> Flops() {
    const OpInfo& info = FindOpInfo(node_.domain, node_.op_type);
    EXPECT_NE(info.flops, nullptr) << node_.op_type;
    return info.flops == nullptr ? std::nullopt : info.flops(graph_, node_);
  }
  // -1 if unknown or symbolic.
  int64_t Count() {
    const std::optional<Dim> flops = Flops();
    return flops && flops->is_constant() ? flops->constant() : -1;
  }

 private:
  ValueId Add(const Dims& dims) {
    Value value;
    value.type =
        Type::Tensor(ElementType::kFloat, Shape(dims.begin(), dims.end()));
    return graph_.AddValue(std::move(value));
  }

  Graph graph_;
  Node node_;
};

TEST(FlopsTest, FirstConvOfResnet) {
  EXPECT_EQ(OneNode("Conv")
                .Operand({1, 3, 224, 224})
                .Operand({64, 3, 7, 7})
                .Result({1, 64, 112, 112})
                .Count(),
            int64_t{2} * 64 * 3 * 49 * 112 * 112);
}

TEST(FlopsTest, BiasOfConvIsWhereTheSumStarts) {
  EXPECT_EQ(OneNode("Conv")
                .Operand({1, 3, 8, 8})
                .Operand({4, 3, 1, 1})
                .Operand({4})
                .Result({1, 4, 8, 8})
                .Count(),
            2 * 4 * 3 * 8 * 8);
}

// Depthwise: each of 32 channels sees its own 3x3 window only.
TEST(FlopsTest, GroupedConv) {
  EXPECT_EQ(OneNode("Conv")
                .Operand({2, 32, 56, 56})
                .Operand({32, 1, 3, 3})
                .Result({2, 32, 56, 56})
                .With("group", int64_t{32})
                .Count(),
            int64_t{2} * 9 * 2 * 32 * 56 * 56);
}

TEST(FlopsTest, QuantizedConvCountsAsConv) {
  EXPECT_EQ(OneNode("QLinearConv")
                .Operand({1, 3, 8, 8})
                .Operand({})
                .Operand({})
                .Operand({4, 3, 3, 3})
                .Result({1, 4, 6, 6})
                .Count(),
            2 * 27 * 4 * 36);
}

// Each of 16*7*7 input elements goes into 8 channels of a 2x2 window.
TEST(FlopsTest, ConvTranspose) {
  EXPECT_EQ(OneNode("ConvTranspose")
                .Operand({1, 16, 7, 7})
                .Operand({16, 8, 2, 2})
                .Result({1, 8, 14, 14})
                .Count(),
            2 * (16 * 7 * 7) * (8 * 2 * 2));
}

TEST(FlopsTest, FusedConvAddsAndActivates) {
  OneNode conv("FusedConv", "com.microsoft");
  conv.Operand({1, 3, 4, 4})
      .Operand({2, 3, 1, 1})
      .NoOperand()
      .Operand({1, 2, 4, 4})
      .Result({1, 2, 4, 4})
      .With("activation", std::string("Relu"));
  EXPECT_EQ(conv.Count(), (2 * 3 + 1 + 1) * 2 * 4 * 4);
}

TEST(FlopsTest, FusedConvWithAStrangeActivationIsUnknown) {
  for (const char* activation : {"Conv", "Nonsense", "FusedConv"}) {
    EXPECT_EQ(OneNode("FusedConv", "com.microsoft")
                  .Operand({1, 3, 4, 4})
                  .Operand({2, 3, 1, 1})
                  .Result({1, 2, 4, 4})
                  .With("activation", std::string(activation))
                  .Flops(),
              std::nullopt)
        << activation;
  }
}

TEST(FlopsTest, Gemm) {
  EXPECT_EQ(OneNode("Gemm")
                .Operand({5, 7})
                .Operand({7, 11})
                .Operand({11})
                .Result({5, 11})
                .Count(),
            2 * 5 * 7 * 11);
  EXPECT_EQ(OneNode("Gemm")
                .Operand({7, 5})
                .Operand({7, 11})
                .Result({5, 11})
                .With("transA", int64_t{1})
                .Count(),
            2 * 5 * 7 * 11);
}

TEST(FlopsTest, BatchedMatMul) {
  EXPECT_EQ(OneNode("MatMul")
                .Operand({3, 1, 5, 7})
                .Operand({4, 7, 11})
                .Result({3, 4, 5, 11})
                .Count(),
            2 * 3 * 4 * 5 * 7 * 11);
  // Vector times vector.
  EXPECT_EQ(OneNode("MatMul").Operand({7}).Operand({7}).Result({}).Count(),
            2 * 7);
}

TEST(FlopsTest, SymbolicMatMulIsAPolynomial) {
  const Dim batch = Dim::Symbol("batch");
  const std::optional<Dim> flops = OneNode("MatMul")
                                       .Operand({batch, 5, 7})
                                       .Operand({7, 11})
                                       .Result({batch, 5, 11})
                                       .Flops();
  ASSERT_TRUE(flops.has_value());
  EXPECT_EQ(*flops, *Mul(batch, Dim(2 * 5 * 7 * 11)));
}

// [inner, batch, rows]: transposed over the batch, and then itself.
TEST(FlopsTest, FusedMatMulFindsTheInnerSize) {
  EXPECT_EQ(OneNode("FusedMatMul", "com.microsoft")
                .Operand({7, 3, 5})
                .Operand({3, 7, 11})
                .Result({3, 5, 11})
                .With("transA", int64_t{1})
                .With("transBatchA", int64_t{1})
                .Count(),
            2 * 3 * 5 * 7 * 11);
  EXPECT_EQ(OneNode("FusedMatMul", "com.microsoft")
                .Operand({3, 7, 5})
                .Operand({3, 7, 11})
                .Result({3, 5, 11})
                .With("transA", int64_t{1})
                .Count(),
            2 * 3 * 5 * 7 * 11);
}

TEST(FlopsTest, PackedMatMulReadsItsInnerSize) {
  OneNode node("MatMulNBits", "com.microsoft");
  node.Operand({1, 4, 64}).Operand({32, 2, 16}).Result({1, 4, 32});
  EXPECT_EQ(node.Flops(), std::nullopt);
  EXPECT_EQ(node.With("K", int64_t{64}).Count(), 2 * 4 * 32 * 64);
}

// 6 steps, 2 entries, 1 direction, 3 inputs, 5 hidden units: four gates of
// 3 + 5 multiply-adds for each unit, then 3 sigmoids (10 each), 2 tanh (8
// each) and 4 more operations.
TEST(FlopsTest, Lstm) {
  OneNode lstm("LSTM");
  lstm.Operand({6, 2, 3})
      .Operand({1, 20, 3})
      .Operand({1, 20, 5})
      .Result({6, 1, 2, 5})
      .With("hidden_size", int64_t{5});
  EXPECT_EQ(lstm.Count(),
            6 * 2 * (2 * 4 * 5 * (3 + 5) + 5 * (3 * 10 + 2 * 8 + 4)));
}

// Of 6 steps only as many are run as the longer of both sequences has.
TEST(FlopsTest, LstmThatIsToldLengths) {
  OneNode lstm("LSTM");
  lstm.Operand({6, 2, 3})
      .Operand({1, 20, 3})
      .Operand({1, 20, 5})
      .NoOperand()
      .Integers({1, 2})
      .Result({6, 1, 2, 5})
      .With("hidden_size", int64_t{5});
  EXPECT_EQ(lstm.Count(),
            2 * 2 * (2 * 4 * 5 * (3 + 5) + 5 * (3 * 10 + 2 * 8 + 4)));
}

TEST(FlopsTest, BidirectionalGruAndRnn) {
  EXPECT_EQ(OneNode("GRU")
                .Operand({6, 2, 3})
                .Operand({2, 15, 3})
                .Operand({2, 15, 5})
                .Count(),
            6 * 2 * 2 * (2 * 3 * 5 * (3 + 5) + 5 * (2 * 10 + 8 + 5)));
  EXPECT_EQ(OneNode("RNN")
                .Operand({6, 2, 3})
                .Operand({1, 5, 3})
                .Operand({1, 5, 5})
                .Count(),
            6 * 2 * (2 * 5 * (3 + 5) + 5 * 8));
}

TEST(FlopsTest, Pools) {
  EXPECT_EQ(OneNode("MaxPool")
                .Operand({1, 64, 112, 112})
                .Result({1, 64, 56, 56})
                .With("kernel_shape", Ints{3, 3})
                .Count(),
            9 * 64 * 56 * 56);
  EXPECT_EQ(OneNode("GlobalAveragePool")
                .Operand({1, 64, 7, 7})
                .Result({1, 64, 1, 1})
                .Count(),
            64 * 49);
}

TEST(FlopsTest, ElementwiseAndReductions) {
  EXPECT_EQ(OneNode("Relu").Operand({4, 5}).Result({4, 5}).Count(), 20);
  EXPECT_EQ(OneNode("Exp").Operand({4, 5}).Result({4, 5}).Count(), 8 * 20);
  // Broadcast: the result counts.
  EXPECT_EQ(OneNode("Add").Operand({4, 1}).Operand({5}).Result({4, 5}).Count(),
            20);
  EXPECT_EQ(
      OneNode("Max").Operand({4}).Operand({4}).Operand({4}).Result({4}).Count(),
      2 * 4);
  EXPECT_EQ(OneNode("ReduceSum").Operand({4, 5}).Result({4}).Count(), 20);
  EXPECT_EQ(OneNode("Softmax").Operand({4, 5}).Result({4, 5}).Count(),
            (8 + 4) * 20);
  EXPECT_EQ(OneNode("Transpose").Operand({4, 5}).Result({5, 4}).Count(), 0);
  EXPECT_EQ(OneNode("Reshape").OfUnknownRank().Count(), 0);
}

TEST(FlopsTest, InterpolationDependsOnTheMode) {
  for (const auto& [mode, flops] :
       {std::pair("nearest", 0), std::pair("linear", 2 * 4 * 3 * 16),
        std::pair("cubic", 2 * 16 * 3 * 16), std::pair("other", -1)}) {
    EXPECT_EQ(OneNode("Resize")
                  .Operand({1, 3, 2, 2})
                  .Result({1, 3, 4, 4})
                  .With("mode", std::string(mode))
                  .Count(),
              flops)
        << mode;
  }
}

// 4-D: batch 1, 2 heads, 3 queries, 5 + 4 keys of width 8, values of width 6.
TEST(FlopsTest, AttentionOverPastKeys) {
  OneNode node("Attention");
  node.Operand({1, 2, 3, 8})
      .Operand({1, 2, 5, 8})
      .Operand({1, 2, 5, 6})
      .NoOperand()
      .Operand({1, 2, 4, 8})
      .Operand({1, 2, 4, 6})
      .Result({1, 2, 3, 6});
  EXPECT_EQ(node.Count(), 2 * 3 * 9 * (2 * 8 + 2 * 6 + 12));
}

TEST(FlopsTest, PackedAttentionNeedsItsHeads) {
  OneNode node("Attention");
  node.Operand({1, 3, 16}).Operand({1, 5, 16}).Operand({1, 5, 16});
  node.Result({1, 3, 16});
  EXPECT_EQ(node.Flops(), std::nullopt);
  EXPECT_EQ(node.With("q_num_heads", int64_t{2}).Count(),
            2 * 3 * 5 * (2 * 8 + 2 * 8 + 12));
}

// The projection to Q, K and V: 3 tokens, 16 to 48.
TEST(FlopsTest, ContribAttentionProjects) {
  EXPECT_EQ(OneNode("Attention", "com.microsoft")
                .Operand({1, 3, 16})
                .Operand({16, 48})
                .Operand({48})
                .Result({1, 3, 16})
                .With("num_heads", int64_t{2})
                .Count(),
            2 * 3 * 16 * 48 + 2 * 3 * 3 * (2 * 8 + 2 * 8 + 12));
}

// 10 tokens, 2 of the experts each: 16 to 32 and back.
TEST(FlopsTest, MixtureOfExperts) {
  EXPECT_EQ(OneNode("MoE", "com.microsoft")
                .Operand({10, 16})
                .Operand({10, 8})
                .Operand({8, 32, 16})
                .NoOperand()
                .Operand({8, 16, 32})
                .Result({10, 16})
                .With("k", int64_t{2})
                .Count(),
            2 * 10 * 2 * (32 * 16 + 16 * 32));
}

int64_t EinsumCount(const char* equation,
                    std::initializer_list<Dims> operands) {
  OneNode node("Einsum");
  for (const Dims& dims : operands) node.Operand(dims);
  return node.With("equation", std::string(equation)).Count();
}

TEST(FlopsTest, Einsum) {
  EXPECT_EQ(EinsumCount("ij,jk->ik", {{3, 5}, {5, 7}}), 2 * 3 * 5 * 7);
  EXPECT_EQ(EinsumCount("ij, jk", {{3, 5}, {5, 7}}), 2 * 3 * 5 * 7);
  // An outer product adds nothing up.
  EXPECT_EQ(EinsumCount("i,j->ij", {{3}, {5}}), 3 * 5);
  EXPECT_EQ(EinsumCount("ij->ji", {{3, 5}}), 0);
  EXPECT_EQ(EinsumCount("ii->i", {{3, 3}}), 0);
  EXPECT_EQ(EinsumCount("ij->i", {{3, 5}}), 3 * 5);
  EXPECT_EQ(EinsumCount("ii", {{3, 3}}), 3);
  // The batch under the ellipsis is broadcast from the right.
  EXPECT_EQ(EinsumCount("...ij,...jk->...ik", {{2, 1, 3, 5}, {4, 5, 7}}),
            2 * (2 * 4) * 3 * 5 * 7);
  EXPECT_EQ(EinsumCount("bhid,bhjd->bhij", {{2, 3, 4, 8}, {2, 3, 5, 8}}),
            2 * 2 * 3 * 4 * 5 * 8);
}

TEST(FlopsTest, MalformedEinsumIsUnknown) {
  EXPECT_EQ(EinsumCount("", {{3, 5}}), -1);
  EXPECT_EQ(EinsumCount("ij,jk->ik", {{3, 5}}), -1);
  EXPECT_EQ(EinsumCount("ijk->i", {{3, 5}}), -1);
  EXPECT_EQ(EinsumCount("i->i", {{3, 5}}), -1);
  EXPECT_EQ(EinsumCount("..i->i", {{3, 5, 2}}), -1);
  EXPECT_EQ(EinsumCount("...i...->i", {{3, 5}}), -1);
  EXPECT_EQ(EinsumCount("1j->j", {{3, 5}}), -1);
  EXPECT_EQ(EinsumCount("->", {{3}}), -1);
  EXPECT_EQ(EinsumCount("...->...", {{3, 5}}), 0);
}

TEST(FlopsTest, UnknownShapesGiveNoCount) {
  EXPECT_EQ(OneNode("Conv")
                .Operand({1, 3, 8, 8})
                .OfUnknownRank()
                .Result({1, 4, 8, 8})
                .Flops(),
            std::nullopt);
  EXPECT_EQ(OneNode("Relu").Operand({4}).Result({4, std::nullopt}).Flops(),
            std::nullopt);
  EXPECT_EQ(OneNode("MatMul").Operand({3, std::nullopt}).Result({3, 3}).Flops(),
            std::nullopt);
}

// No rule may trust that a node has the operands, ranks and attributes that its
// schema asks for.
TEST(FlopsTest, RulesSurviveAnyNode) {
  for (const OpInfo& row : AllOpInfo()) {
    if (row.flops == nullptr) continue;
    const std::string name(row.name);
    const std::string domain(row.domain);
    for (const Dims& dims : {Dims{}, Dims{0}, Dims{1, 2}, Dims{2, 2, 2},
                             Dims(9, INT64_MAX), Dims{std::nullopt}}) {
      for (int operands : {0, 1, 2, 9}) {
        OneNode node(name.c_str(), domain.c_str());
        for (int i = 0; i < operands; ++i) node.Operand(dims);
        for (int i = 0; i < operands; ++i) node.Result(dims);
        node.With("k", INT64_MAX)
            .With("K", INT64_MAX)
            .With("size", INT64_MAX)
            .With("num_heads", INT64_MAX)
            .With("kernel_shape", Ints(40, INT64_MAX))
            .With("equation", std::string("a,b->"));
        const std::optional<Dim> flops = node.Flops();
        if (flops && flops->is_constant()) {
          EXPECT_GE(flops->constant(), 0) << name;
        }
      }
    }
  }
}

TEST(FlopsTest, OverflowGivesNoCount) {
  EXPECT_EQ(OneNode("Relu").Result({INT64_MAX, 2}).Flops(), std::nullopt);
  EXPECT_EQ(OneNode("Exp").Result({INT64_MAX / 2}).Flops(), std::nullopt);
}

}  // namespace
}  // namespace onnx_memopt::ir
