// Norms over an image and reductions of several axes, as they stand in a graph:
// in one node, or taken apart by an exporter.
//
//   const ReductionFinder finder(graph, min_bytes);
//   if (std::optional<ImageNorm> norm = finder.NormAt(node)) ...
#ifndef ONNX_MEMOPT_LIB_REWRITE_IMAGE_NORM_H_
#define ONNX_MEMOPT_LIB_REWRITE_IMAGE_NORM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// An image is [items, channels, rows, ...].
inline constexpr size_t kChannelAxis = 1;
inline constexpr size_t kRowAxis = 2;

// A norm, with what exporters put around it.
struct ImageNorm {
  ir::ValueId x = ir::kNoValue;
  ir::ValueId y = ir::kNoValue;  // of the same shape
  int64_t groups = 0;
  int64_t channels = 0;
  double epsilon = 0;
  // Of groups or of channels.
  ir::ValueId scale = ir::kNoValue;
  ir::ValueId shift = ir::kNoValue;
  bool scales_channels = false;
  // Behind it, Mul and Add with something for each channel, in order.
  std::vector<std::pair<bool, ir::ValueId>> scales_and_shifts;  // true: Mul
  // All that makes y of x, and is for nothing else; in order.
  std::vector<ir::NodeId> nodes;
};

// A reduction over the rows and other axes.
struct ImageReduction {
  ir::ValueId x = ir::kNoValue;
  ir::ValueId y = ir::kNoValue;
  ir::Combine combine = ir::Combine::kNone;
  std::vector<int64_t> first;  // axes of the first phase
  std::vector<int64_t> all;
  bool keep_dims = true;
};

// Of the main graph as it is when this is made.
class ReductionFinder {
 public:
  // Smaller operands are left alone.
  ReductionFinder(const ir::Graph& graph, int64_t min_bytes);

  std::optional<ImageNorm> NormAt(ir::NodeId id) const;
  std::optional<ImageReduction> ReductionAt(ir::NodeId id) const;
  // 0 where it is unknown.
  int64_t BytesOf(ir::ValueId value) const;

 private:
  const ir::Shape* ShapeOf(ir::ValueId value) const;
  bool IsLarge(ir::ValueId value) const { return BytesOf(value) >= min_bytes_; }
  ir::NodeId OnlyReader(ir::ValueId value) const;
  void LookThroughReshapes(ImageNorm* norm) const;
  bool Fits(const ImageNorm& norm) const;
  bool IsOfChannels(ir::ValueId value, int64_t channels, size_t rank) const;
  void TakeScalesAndShifts(ImageNorm* norm) const;
  void TakeUnused(ImageNorm* norm) const;

  const ir::Graph& graph_;
  const ir::Bindings bindings_;
  const int64_t min_bytes_;
  llvm::DenseSet<ir::ValueId> returned_;
  llvm::DenseMap<ir::ValueId, std::vector<ir::NodeId>> readers_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_IMAGE_NORM_H_
