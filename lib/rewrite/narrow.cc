#include "onnx_memopt/rewrite/narrow.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/rewrite/width_classes.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::NodeId;
using ir::ValueId;

// A width of fewer bytes than this part of all that may change is not worth a
// line.
constexpr int64_t kSmallPart = 100;
// Of numbers in float32 or, where they were 16-bit ones before, not quite.
constexpr double kSameNumber = 1e-3;
constexpr int64_t kTellingWidth = 64;

class Narrower {
 public:
  Narrower(const NarrowOptions& options, ir::Graph* graph)
      : options_(options),
        graph_(*graph),
        builder_(graph),
        e_(&builder_, ir::kMainBlock) {
    e_.set_prefix("width");
  }

  absl::StatusOr<Narrowed> Run(absl::Span<const ValueId> weights) {
    std::vector<WidthClass> classes =
        FindWidthClasses(graph_, weights, options_.outputs);
    std::stable_sort(classes.begin(), classes.end(),
                     [](const WidthClass& a, const WidthClass& b) {
                       return a.weight_bytes > b.weight_bytes;
                     });
    int64_t free_bytes = 0;
    int64_t all_bytes = 0;
    const WidthClass* held = nullptr;  // by an op, the largest
    for (const WidthClass& c : classes) {
      all_bytes += c.weight_bytes;
      if (c.fixed_by.empty()) free_bytes += c.weight_bytes;
      // One axis of one weight, as a kernel's, is no width.
      if (c.fixed_by_op && c.weights > 1 && held == nullptr) held = &c;
    }
    if (held != nullptr && held->weight_bytes > free_bytes) {
      return Refused(*held);
    }
    Narrowed narrowed;
    for (const WidthClass& c : classes) {
      const std::optional<Width> changed =
          c.fixed_by.empty() ? Change(c) : std::nullopt;
      if (changed) {
        narrowed.changed.push_back(*changed);
      } else if (c.weight_bytes > all_bytes / kSmallPart &&
                 !(c.fixed_by_op && c.weights == 1)) {
        narrowed.kept.push_back(absl::StrCat(
            "width ", c.extent, " is kept: ",
            c.fixed_by.empty()
                ? absl::StrCat("it goes by steps of ", c.extent / c.unit)
                : c.fixed_by));
      }
    }
    if (narrowed.changed.empty()) {
      if (classes.empty()) {
        return absl::OutOfRangeError("there is no weight with a width");
      }
      const auto by_op =
          std::find_if(classes.begin(), classes.end(),
                       [](const WidthClass& c) { return c.fixed_by_op; });
      return Refused(by_op == classes.end() ? classes.front() : *by_op);
    }
    ListConstants(narrowed.changed, &narrowed.kept);
    Rewrite();
    return narrowed;
  }

 private:
  // Numbers that a width seems to be stated in, such as the scale of attention
  // over all of it. They stay: whether one was meant so, a number does not say.
  void ListConstants(absl::Span<const Width> changed,
                     std::vector<std::string>* lines) const {
    std::set<ValueId> seen;
    for (NodeId id : graph_.block(ir::kMainBlock).nodes) {
      for (ValueId operand : graph_.node(id).operands) {
        const std::optional<double> number = ScalarOf(operand);
        if (!number || !seen.insert(operand).second) continue;
        for (const Width& width : changed) {
          const absl::string_view form = FormOf(*number, width.from);
          if (form.empty()) continue;
          lines->push_back(absl::StrCat(
              "constant \"", Printable(graph_.value(operand).name), "\" is ",
              absl::Substitute(form, width.from), ", of a width that is now ",
              width.to, "; it stays"));
          break;
        }
      }
    }
  }

  std::optional<double> ScalarOf(ValueId id) const {
    if (id == ir::kNoValue || graph_.value(id).contents == nullptr ||
        graph_.value(id).contents->elements.size() != 1) {
      return std::nullopt;
    }
    return graph_.value(id).contents->elements[0].real;
  }

  // "" where the number has nothing to do with the width, or is one that is
  // found anywhere: a root of a small width may be 4.
  static absl::string_view FormOf(double number, int64_t width) {
    const auto is = [&](double value) {
      return std::abs(number - value) <= kSameNumber * value;
    };
    const auto extent = static_cast<double>(width);
    if (width < kTellingWidth) return "";
    if (is(1 / std::sqrt(extent))) return "1/sqrt($0)";
    if (is(std::sqrt(extent))) return "sqrt($0)";
    if (is(1 / extent)) return "1/$0";
    return is(extent) ? "$0" : "";
  }

  static absl::Status Refused(const WidthClass& c) {
    return absl::OutOfRangeError(absl::StrCat(
        "the width ", c.extent, " cannot be changed: ",
        c.fixed_by.empty()
            ? absl::StrCat("it goes by steps of ", c.extent / c.unit)
            : absl::StrCat("it is that of ", c.fixed_by)));
  }

  std::optional<Width> Change(const WidthClass& c) {
    const int64_t parts = std::clamp<int64_t>(
        std::llround(options_.ratio * static_cast<double>(c.unit)), 1, c.unit);
    if (parts == c.unit) return std::nullopt;
    const auto scaled = [&](int64_t extent) { return extent / c.unit * parts; };
    for (const AxisRef& axis : c.axes) {
      ir::Value& value = graph_.mutable_value(axis.value);
      std::optional<ir::Dim>& dim =
          (*value.type.shape)[static_cast<size_t>(axis.axis)];
      dim = ir::Dim(scaled(dim->constant()));
      value.contents = nullptr;
      if (value.kind == ir::ValueKind::kInitializer) Reshape(value);
    }
    operands_.insert(operands_.end(), c.operands.begin(), c.operands.end());
    attributes_.insert(attributes_.end(), c.attributes.begin(),
                       c.attributes.end());
    return Width{
        .from = c.extent, .to = scaled(c.extent), .weights = c.weights};
  }

  // A weight of the value's shape, without elements.
  void Reshape(ir::Value& value) {
    ir::Weight weight = graph_.weight(value.weight);
    int64_t elements = 1;
    for (size_t i = 0; i < weight.dims.size(); ++i) {
      weight.dims[i] = (*value.type.shape)[i]->constant();
      elements *= weight.dims[i];
    }
    weight.size_bytes =
        elements * ir::SizeBytes(weight.element, ir::Dim(1))->constant();
    weight.storage = ir::WeightStorage::kRaw;
    weight.bytes = {};
    value.weight = graph_.AddWeight(std::move(weight));
    value.source_block = ir::kNoBlock;
  }

  int64_t ExtentOf(const AxisRef& axis) const {
    return (*graph_.value(axis.value)
                 .type.shape)[static_cast<size_t>(axis.axis)]
        ->constant();
  }

  // Attributes and lists of extents.
  void Rewrite() {
    for (const ExtentAttribute& a : attributes_) {
      ir::Node& node = graph_.mutable_node(a.node);
      const int64_t number = ExtentOf(a.axis) * a.num / a.den;
      for (ir::Attribute& attribute : node.attributes) {
        if (attribute.name != a.name) continue;
        if (a.element < 0) {
          attribute.value = number;
        } else if (auto* list =
                       std::get_if<std::vector<int64_t>>(&attribute.value)) {
          (*list)[static_cast<size_t>(a.element)] = number;
        }
      }
      node.ForgetSource();
    }
    std::map<std::pair<NodeId, int>, std::map<int, int64_t>> lists;
    for (const ExtentOperand& o : operands_) {
      lists[{o.node, o.operand}][o.element] = ExtentOf(o.axis);
    }
    std::map<NodeId, std::vector<NodeId>> before;
    for (const auto& [place, elements] : lists) {
      const auto& [node, operand] = place;
      const auto at = static_cast<size_t>(operand);
      if (at >= graph_.node(node).operands.size()) continue;
      const size_t begin = e_.nodes().size();
      const ValueId old = graph_.node(node).operands[at];
      graph_.mutable_node(node).operands[at] = Edited(old, elements);
      auto& nodes = before[node];
      nodes.insert(nodes.end(),
                   e_.nodes().begin() + static_cast<std::ptrdiff_t>(begin),
                   e_.nodes().end());
    }
    std::vector<NodeId> schedule;
    for (NodeId id : graph_.block(ir::kMainBlock).nodes) {
      const auto it = before.find(id);
      if (it != before.end()) {
        schedule.insert(schedule.end(), it->second.begin(), it->second.end());
      }
      schedule.push_back(id);
    }
    graph_.mutable_block(ir::kMainBlock).nodes = std::move(schedule);
  }

  // The list with other numbers at these places. What is computed when the
  // model runs is cut out and joined with them.
  ValueId Edited(ValueId list, const std::map<int, int64_t>& elements) {
    const ir::Value& value = graph_.value(list);
    std::vector<int64_t> numbers;
    if (value.contents != nullptr) {
      for (const ir::Element& element : value.contents->elements) {
        if (!element.integer || !element.integer->is_constant()) break;
        numbers.push_back(element.integer->constant());
      }
    }
    if (value.contents != nullptr &&
        numbers.size() == value.contents->elements.size()) {
      const std::vector<int64_t> old = numbers;
      for (const auto& [element, number] : elements) {
        // 0 and -1 say that the extent follows.
        int64_t& at = numbers[static_cast<size_t>(element)];
        if (at > 0) at = number;
      }
      return numbers == old ? list : e_.Ints(numbers);
    }
    std::vector<ValueId> pieces;
    int next = 0;
    const auto keep = [&](int64_t end) {
      if (end <= next) return;
      pieces.push_back(e_.Slice(list, {0}, {next}, {end}));
    };
    for (const auto& [element, number] : elements) {
      keep(element);
      pieces.push_back(e_.Ints({number}));
      next = element + 1;
    }
    const std::optional<ir::Dim>& count = (*value.type.shape)[0];
    keep(count->constant());
    return pieces.size() == 1 ? pieces[0] : e_.Concat(pieces, 0);
  }

  const NarrowOptions& options_;
  ir::Graph& graph_;
  Builder builder_;
  Emitter e_;
  std::vector<ExtentOperand> operands_;
  std::vector<ExtentAttribute> attributes_;
};

}  // namespace

absl::StatusOr<Narrowed> Narrow(const NarrowOptions& options,
                                absl::Span<const ValueId> weights,
                                ir::Graph* graph) {
  return Narrower(options, graph).Run(weights);
}

}  // namespace onnx_memopt::rewrite
