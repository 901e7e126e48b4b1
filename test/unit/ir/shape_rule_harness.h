// Applies one shape rule to operands written as text.
//
//   Rule(shape_rules::Concat, "Concat")
//       .In("int64[2]", Ints({1, 2})).In("int64[b]").Attr("axis", 0).Types()
//
// Dims are numbers, names, "?" for unknown, or sums of a name and a number
// ("s+1"); "float[...]" has no rank. A rule's claim that it is complete is
// checked against what it set.
#ifndef ONNX_MEMOPT_TEST_UNIT_IR_SHAPE_RULE_HARNESS_H_
#define ONNX_MEMOPT_TEST_UNIT_IR_SHAPE_RULE_HARNESS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::ir::testing {

using ContentsPtr = std::shared_ptr<const Contents>;

inline std::optional<Dim> ParseDim(absl::string_view text) {
  if (text == "?") return std::nullopt;
  Dim sum(0);
  for (const absl::string_view part : absl::StrSplit(text, '+')) {
    int64_t number = 0;
    const Dim term =
        absl::SimpleAtoi(part, &number) ? Dim(number) : Dim::Symbol(part);
    sum = Add(sum, term).value();
  }
  return sum;
}

inline Type ParseType(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(text, absl::MaxSplits('[', 1));
  ElementType element = ElementType::kUndefined;
  for (int i = 1; i <= 26; ++i) {
    if (Name(static_cast<ElementType>(i)) == halves.first) {
      element = static_cast<ElementType>(i);
    }
  }
  absl::string_view dims = halves.second;
  dims.remove_suffix(1);  // ]
  if (dims == "...") return Type::Tensor(element, std::nullopt);
  Shape shape;
  for (const absl::string_view dim :
       absl::StrSplit(dims, ", ", absl::SkipEmpty())) {
    shape.push_back(ParseDim(dim));
  }
  return Type::Tensor(element, std::move(shape));
}

inline std::string ToText(const Contents* contents) {
  if (contents == nullptr) return "none";
  return absl::StrCat("{",
                      absl::StrJoin(contents->elements, ", ",
                                    [](std::string* out, const Element& e) {
                                      absl::StrAppend(
                                          out, e.integer ? e.integer->ToString()
                                               : e.real  ? absl::StrCat(*e.real)
                                                         : "?");
                                    }),
                      "}");
}

// A list of elements written as dims.
inline ContentsPtr Dims(const std::vector<std::string>& elements) {
  Contents contents{{static_cast<int64_t>(elements.size())}, {}};
  for (const std::string& text : elements) {
    contents.elements.push_back({ParseDim(text), std::nullopt});
  }
  return std::make_shared<const Contents>(std::move(contents));
}

inline ContentsPtr Ints(const std::vector<int64_t>& values) {
  Contents contents{{static_cast<int64_t>(values.size())}, {}};
  for (const int64_t value : values) {
    contents.elements.push_back(Element::Integer(Dim(value)));
  }
  return std::make_shared<const Contents>(std::move(contents));
}

inline ContentsPtr Reals(const std::vector<double>& values) {
  Contents contents{{static_cast<int64_t>(values.size())}, {}};
  for (const double value : values) {
    contents.elements.push_back(Element::Real(value));
  }
  return std::make_shared<const Contents>(std::move(contents));
}

inline ContentsPtr Scalar(absl::string_view value) {
  return std::make_shared<const Contents>(
      Contents{{}, {{ParseDim(value), std::nullopt}}});
}

inline ContentsPtr RealScalar(double value) {
  return std::make_shared<const Contents>(Contents{{}, {Element::Real(value)}});
}

class Rule {
 public:
  Rule(ShapeRule rule, absl::string_view op, int opset = 18) : rule_(rule) {
    node_.op_type = std::string(op);
    node_.opset = opset;
  }

  Rule& Domain(absl::string_view domain) {
    node_.domain = std::string(domain);
    return *this;
  }
  Rule& In(absl::string_view type, ContentsPtr contents = nullptr) {
    return In(ParseType(type), std::move(contents));
  }
  Rule& In(Type type, ContentsPtr contents) {
    operands_.emplace_back(std::move(type));
    operand_contents_.push_back(std::move(contents));
    return *this;
  }
  // A list operand of type int64 with these elements.
  Rule& In(const ContentsPtr& list) {
    return In(Type::Tensor(ElementType::kInt64, Shape{Dim(list->dims[0])}),
              list);
  }
  // An operand that is left out.
  Rule& Out() {
    operands_.emplace_back();
    operand_contents_.push_back(nullptr);
    return *this;
  }
  Rule& Attr(absl::string_view name, AttributeValue value) {
    node_.attributes.push_back({std::string(name), std::move(value)});
    return *this;
  }
  Rule& Attr(absl::string_view name, int value) {
    return Attr(name, AttributeValue(int64_t{value}));
  }
  Rule& Attr(absl::string_view name, const char* value) {
    return Attr(name, AttributeValue(std::string(value)));
  }
  Rule& List(absl::string_view name, std::vector<int64_t> value) {
    return Attr(name, AttributeValue(std::move(value)));
  }
  Rule& Results(size_t count) {
    count_ = count;
    return *this;
  }

  // Runs the rule; then the results can be read.
  Rule& Run() {
    for (size_t i = 0; i < count_; ++i) {
      node_.results.push_back(ValueId{static_cast<uint32_t>(i)});
    }
    std::vector<const Type*> operand_types;
    for (const std::optional<Type>& type : operands_) {
      operand_types.push_back(type ? &*type : nullptr);
    }
    ShapeContext context{node_, std::move(operand_types), operand_contents_,
                         std::vector<Type>(count_),
                         std::vector<ContentsPtr>(count_)};
    complete_ = rule_(context);
    types_ = std::move(context.result_types);
    contents_ = std::move(context.result_contents);
    EXPECT_EQ(types_.size(), count_);
    EXPECT_EQ(contents_.size(), count_);
    EXPECT_EQ(complete_, AllKnown()) << node_.op_type << " " << TypesText();
    return *this;
  }

  // All result types, "float[b, 2], int64[b]".
  std::string Types() {
    Run();
    return TypesText();
  }
  // The contents of the first result.
  std::string Values() {
    Run();
    return ToText(contents_[0].get());
  }
  const Type& type(size_t i) const { return types_[i]; }
  const ContentsPtr& contents(size_t i) const { return contents_[i]; }
  bool complete() const { return complete_; }

 private:
  bool AllKnown() const {
    for (const Type& type : types_) {
      if (!type.is_tensor()) return false;
      if (type.element == ElementType::kUndefined || !type.shape) return false;
      for (const std::optional<Dim>& dim : *type.shape) {
        if (!dim) return false;
      }
    }
    return true;
  }
  std::string TypesText() const {
    return absl::StrJoin(types_, ", ", [](std::string* out, const Type& t) {
      absl::StrAppend(out, ToString(t));
    });
  }

  ShapeRule rule_;
  Node node_;
  std::vector<std::optional<Type>> operands_;
  std::vector<ContentsPtr> operand_contents_;
  size_t count_ = 1;
  bool complete_ = false;
  std::vector<Type> types_;
  std::vector<ContentsPtr> contents_;
};

}  // namespace onnx_memopt::ir::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_IR_SHAPE_RULE_HARNESS_H_
