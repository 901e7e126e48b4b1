// Prints what a model takes before and after the rewrite, and writes nothing.
//
//   peak MODEL.onnx

#include <iostream>

#include "onnx_memopt/optimize.h"
#include "onnx_memopt/report/text.h"
#include "onnx_memopt/train.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: peak MODEL.onnx\n";
    return 2;
  }
  const absl::StatusOr<onnx_memopt::Report> report =
      onnx_memopt::Optimize(argv[1], {});
  if (!report.ok()) {
    std::cerr << "error: " << report.status().message() << "\n";
    return 1;
  }
  std::cout << onnx_memopt::ReportToText(*report, {.max_tensors = 3});
  return 0;
}
