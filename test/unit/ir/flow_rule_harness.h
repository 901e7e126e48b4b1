// Lists the ways of one op whose operands and results are written as text.
//
//   Flow("MatMul").In("float[b, 4]").In("float[4, 8]").Out("float[b,
//   8]").Ways()
//
// Dims are those of shape_rule_harness.h.
#ifndef ONNX_MEMOPT_TEST_UNIT_IR_FLOW_RULE_HARNESS_H_
#define ONNX_MEMOPT_TEST_UNIT_IR_FLOW_RULE_HARNESS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/graph.h"
#include "unit/ir/shape_rule_harness.h"

namespace onnx_memopt::ir::testing {

class Flow {
 public:
  explicit Flow(absl::string_view op, int opset = 21) {
    node_.op_type = std::string(op);
    node_.opset = opset;
  }

  Flow& Domain(absl::string_view domain) {
    node_.domain = std::string(domain);
    return *this;
  }
  Flow& In(absl::string_view type, ContentsPtr contents = nullptr) {
    node_.operands.push_back(AddValue(type, std::move(contents)));
    return *this;
  }
  // A list of integers that is known.
  Flow& In(const ContentsPtr& list) {
    return In(absl::StrCat("int64[", list->dims[0], "]"), list);
  }
  Flow& NoIn() {
    node_.operands.push_back(kNoValue);
    return *this;
  }
  Flow& Out(absl::string_view type) {
    node_.results.push_back(AddValue(type, nullptr));
    return *this;
  }
  Flow& NoOut() {
    node_.results.push_back(kNoValue);
    return *this;
  }
  Flow& Attr(absl::string_view name, int value) {
    return Add(name, AttributeValue(int64_t{value}));
  }
  Flow& Attr(absl::string_view name, const char* value) {
    return Add(name, AttributeValue(std::string(value)));
  }
  Flow& Attr(absl::string_view name, float value) {
    return Add(name, AttributeValue(value));
  }
  Flow& List(absl::string_view name, std::vector<int64_t> value) {
    return Add(name, AttributeValue(std::move(value)));
  }

  // A line for each way.
  std::vector<std::string> Ways() {
    node_.info = &FindOpInfo(node_.domain, node_.op_type);
    const NodeId node = graph_.AddNode(node_);
    std::vector<std::string> lines;
    for (const SplitWay& way : SplitWays(graph_, node)) {
      EXPECT_EQ(way.operands.size(), node_.operands.size());
      EXPECT_EQ(way.result_axes.size(), node_.results.size());
      lines.push_back(ToString(way));
    }
    return lines;
  }

 private:
  ValueId AddValue(absl::string_view type, ContentsPtr contents) {
    Value value;
    value.type = ParseType(type);
    value.contents = std::move(contents);
    return graph_.AddValue(std::move(value));
  }
  Flow& Add(absl::string_view name, AttributeValue value) {
    node_.attributes.push_back({std::string(name), std::move(value)});
    return *this;
  }

  Graph graph_;
  Node node_;
};

}  // namespace onnx_memopt::ir::testing

#endif  // ONNX_MEMOPT_TEST_UNIT_IR_FLOW_RULE_HARNESS_H_
