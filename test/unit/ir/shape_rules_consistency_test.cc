// A rule applied to symbolic operands says for every choice of sizes what the
// same rule says of those sizes: binding the names in its result gives what it
// makes of operands whose names are bound.
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "unit/ir/random_node.h"

namespace onnx_memopt::ir {
namespace {

using testing::AllRules;
using testing::NamedRule;
using testing::RandomNode;

using ContentsList = std::vector<std::shared_ptr<const Contents>>;

struct Operands {
  std::list<Type> storage;
  std::vector<const Type*> types;
  ContentsList contents;
};

struct Outcome {
  std::vector<Type> types;
  ContentsList contents;
};

Outcome Apply(const NamedRule& named, const Node& node,
              const Operands& operands) {
  ShapeContext context{node, operands.types, operands.contents,
                       std::vector<Type>(node.results.size()),
                       ContentsList(node.results.size())};
  named.rule(context);
  return {std::move(context.result_types), std::move(context.result_contents)};
}

// nullopt where rules need not be right: a dim below 0, or a formula below 1 (a
// size of 0 is broadcast to 0 even with 1, and in a Reshape it means something
// else).
std::optional<Operands> Bind(const Operands& operands,
                             const Bindings& bindings) {
  Operands bound;
  for (size_t i = 0; i < operands.types.size(); ++i) {
    if (operands.types[i] == nullptr) {
      bound.types.push_back(nullptr);
    } else {
      bound.storage.push_back(*operands.types[i]);
      Type& type = bound.storage.back();
      bound.types.push_back(&type);
      if (type.shape) {
        for (std::optional<Dim>& dim : *type.shape) {
          if (!dim) continue;
          const std::optional<int64_t> value = dim->Evaluate(bindings);
          if (!value || *value < (dim->is_constant() ? 0 : 1)) {
            return std::nullopt;
          }
          dim = Dim(*value);
        }
      }
    }
    if (operands.contents[i] == nullptr) {
      bound.contents.push_back(nullptr);
      continue;
    }
    Contents contents = *operands.contents[i];
    for (Element& element : contents.elements) {
      if (!element.integer || element.integer->is_constant()) continue;
      const std::optional<int64_t> value = element.integer->Evaluate(bindings);
      if (!value || *value < 1) return std::nullopt;
      element = Element::Integer(Dim(*value));
    }
    bound.contents.push_back(
        std::make_shared<const Contents>(std::move(contents)));
  }
  return bound;
}

class Comparison {
 public:
  explicit Comparison(Bindings bindings) : bindings_(std::move(bindings)) {}

  void Compare(const Outcome& symbolic, const Outcome& bound) {
    for (size_t i = 0; i < symbolic.types.size(); ++i) {
      CompareShapes(symbolic.types[i], bound.types[i]);
      if (symbolic.contents[i] != nullptr && bound.contents[i] != nullptr) {
        CompareContents(*symbolic.contents[i], *bound.contents[i]);
      }
    }
  }
  int symbols_compared() const { return symbols_compared_; }

 private:
  void CompareShapes(const Type& symbolic, const Type& bound) {
    if (!symbolic.shape || !bound.shape) return;
    ASSERT_EQ(symbolic.shape->size(), bound.shape->size());
    for (size_t i = 0; i < symbolic.shape->size(); ++i) {
      CompareDims((*symbolic.shape)[i], (*bound.shape)[i]);
    }
  }
  void CompareContents(const Contents& symbolic, const Contents& bound) {
    if (symbolic.dims != bound.dims) return;  // They came with other types.
    for (size_t i = 0; i < symbolic.elements.size(); ++i) {
      CompareDims(symbolic.elements[i].integer, bound.elements[i].integer);
      const std::optional<double>& a = symbolic.elements[i].real;
      const std::optional<double>& b = bound.elements[i].real;
      if (a && b && *a == *a) {
        EXPECT_EQ(*a, *b);
      }
    }
  }
  void CompareDims(const std::optional<Dim>& symbolic,
                   const std::optional<Dim>& bound) {
    if (!symbolic || !bound) return;
    const std::optional<int64_t> value = symbolic->Evaluate(bindings_);
    if (!value) return;
    if (!symbolic->is_constant()) ++symbols_compared_;
    EXPECT_EQ(absl::StrCat(*value), bound->ToString()) << symbolic->ToString();
  }

  Bindings bindings_;
  int symbols_compared_ = 0;
};

TEST(ConsistencyTest, BindingBeforeOrAfterIsTheSame) {
  RandomNode random(11);
  int compared = 0;
  for (const NamedRule& named : AllRules()) {
    SCOPED_TRACE(named.name);
    for (int round = 0; round < 1000; ++round) {
      Node node;
      node.op_type = named.ops[static_cast<size_t>(
          random.Number(0, static_cast<int64_t>(named.ops.size()) - 1))];
      node.opset = static_cast<int>(random.Number(1, 26));
      random.AddAttributes(&node);
      node.results.resize(static_cast<size_t>(random.Number(1, 4)));
      Operands operands;
      const int64_t count = random.Number(1, 5);
      for (int64_t i = 0; i < count; ++i) {
        operands.storage.push_back(random.RandomType());
        Type& type = operands.storage.back();
        operands.contents.push_back(random.RandomContents(&type));
        operands.types.push_back(&type);
      }
      Bindings bindings;
      for (const char* name : {"a", "b", "c", "d", "z"}) {
        bindings[name] = random.Number(1, 7);
      }
      const std::optional<Operands> bound = Bind(operands, bindings);
      if (!bound) continue;
      SCOPED_TRACE(absl::StrCat(node.op_type, " round ", round));
      Comparison comparison(bindings);
      comparison.Compare(Apply(named, node, operands),
                         Apply(named, node, *bound));
      compared += comparison.symbols_compared();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(compared, 6000);
}

}  // namespace
}  // namespace onnx_memopt::ir
