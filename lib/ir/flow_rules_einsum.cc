// Einsum: a letter of the result is independent, one that only operands have is
// contracted. Ellipses, and letters that an operand repeats, are left alone.
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

bool HasDistinctLetters(const std::string& term) {
  std::set<char> seen;
  for (const char letter : term) {
    if (!absl::ascii_isalpha(static_cast<unsigned char>(letter)) ||
        !seen.insert(letter).second) {
      return false;
    }
  }
  return true;
}

// nullopt if the equation is not of the simple kind.
std::optional<Equation> Parse(const std::string& text) {
  const std::string plain = absl::StrReplaceAll(text, {{" ", ""}});
  const std::vector<std::string> sides = absl::StrSplit(plain, "->");
  if (sides.size() != 2) return std::nullopt;
  Equation equation{absl::StrSplit(sides[0], ','), sides[1]};
  if (!HasDistinctLetters(equation.result)) return std::nullopt;
  for (const std::string& term : equation.operands) {
    if (!HasDistinctLetters(term)) return std::nullopt;
  }
  return equation;
}

// Every operand that has the letter is split along it.
bool SplitLetter(const ShapeContext& c, const Equation& equation, char letter,
                 SplitWay& way) {
  for (size_t i = 0; i < equation.operands.size(); ++i) {
    const size_t axis = equation.operands[i].find(letter);
    if (axis != std::string::npos && !SplitOperand(c, way, i, axis)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Ways Einsum(const ShapeContext& c) {
  const auto equation = Parse(StringAttribute(c.node, "equation", ""));
  const Shape* result = ResultShape(c, 0);
  if (!equation || result == nullptr ||
      equation->operands.size() != c.operand_types.size() ||
      equation->result.size() != result->size()) {
    return {};
  }
  std::string contracted;
  Shape extents;
  for (size_t i = 0; i < equation->operands.size(); ++i) {
    const std::string& term = equation->operands[i];
    const Shape* shape = c.shape(i);
    if (shape == nullptr || shape->size() != term.size()) return {};
    for (size_t axis = 0; axis < term.size(); ++axis) {
      if (equation->result.find(term[axis]) == std::string::npos &&
          contracted.find(term[axis]) == std::string::npos) {
        contracted.push_back(term[axis]);
        extents.push_back((*shape)[axis]);
      }
    }
  }
  Ways ways;
  for (size_t axis = 0; axis < result->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (way && SplitLetter(c, *equation, equation->result[axis], *way)) {
      ways.push_back(*std::move(way));
    }
  }
  for (size_t i = 0; i < contracted.size(); ++i) {
    std::optional<SplitWay> way = WayOver(c, extents[i], Combine::kSum);
    if (way && SplitLetter(c, *equation, contracted[i], *way)) {
      ways.push_back(*std::move(way));
    }
  }
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
