// The graph of a report in Graphviz's language: a box for each node with the
// bytes that live while it runs, an arrow for what one reads of another, a
// frame for each subgraph. A large graph is drawn with a box for each scope of
// the nodes' names ("/layer1/block0"), as deep as there is room for; without
// scopes, for each run of nodes.
//
//   std::string text = ReportToDot(report, {.max_boxes = 300});
//   // dot -Tsvg model.dot > model.svg
#ifndef ONNX_MEMOPT_REPORT_DOT_H_
#define ONNX_MEMOPT_REPORT_DOT_H_

#include <cstddef>
#include <string>

#include "onnx_memopt/report.h"

namespace onnx_memopt {

struct DotOptions {
  size_t max_boxes = 300;  // more nodes than that are drawn in groups
};

std::string ReportToDot(const Report& report, const DotOptions& options = {});

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_DOT_H_
