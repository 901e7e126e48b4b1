// A Matrix as one of Eigen's, and back.
#ifndef ONNX_MEMOPT_LIB_REWRITE_MATRIX_VIEW_H_
#define ONNX_MEMOPT_LIB_REWRITE_MATRIX_VIEW_H_

#include "Eigen/Core"
#include "onnx_memopt/rewrite/low_rank.h"

namespace onnx_memopt::rewrite {

using FloatMatrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<FloatMatrix>;
using ConstMap = Eigen::Map<const FloatMatrix>;

inline ConstMap View(const Matrix& matrix) {
  return {matrix.elements.data(), matrix.rows, matrix.columns};
}

inline Map MutableView(Matrix* matrix) {
  return {matrix->elements.data(), matrix->rows, matrix->columns};
}

inline Matrix ToMatrix(const FloatMatrix& matrix) {
  return {matrix.rows(),
          matrix.cols(),
          {matrix.data(), matrix.data() + matrix.size()}};
}

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_MATRIX_VIEW_H_
