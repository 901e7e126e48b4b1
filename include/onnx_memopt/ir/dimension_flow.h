// Dimension flow: along which dimensions the work of a node can be done in
// independent parts, and which part of each operand a part of the results
// needs. It is what `split` reads to find regions that can run part by part.
//
//   y = MatMul(x, w)          x: [batch, 8, 16], w: [16, 32]
//
//   way 0: result axis 0 (batch)   x axis 0, w whole
//   way 1: result axis 1           x axis 1, w whole
//   way 2: result axis 2           x whole, w axis 1
//   way 3: contracted, extent 16   x axis 2, w axis 0; parts are summed
//
//   for (const SplitWay& way : SplitWays(graph, matmul)) ...
//
// Contract: run the node on the operands' parts, with the edits that the way
// asks for, and it computes exactly that part of each result: bit by bit, but
// for the order of summation where parts are combined, and for kernels that sum
// in another order when a matrix has another size. A way that is not sure to be
// right is not listed: dims that only may be equal, an attribute that cannot be
// read, an axis that depends on data. Ops without a rule are opaque: no way.
//
// Parts are ranges [lo, hi) of `extent` elements, in multiples of `grain` but
// for the end of the last one. They may differ in size unless the way has
// attribute edits.
#ifndef ONNX_MEMOPT_IR_DIMENSION_FLOW_H_
#define ONNX_MEMOPT_IR_DIMENSION_FLOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/ir/ids.h"

namespace onnx_memopt::ir {

class Graph;

// How an operand takes part when the node runs on part [lo, hi). It needs, of
// its axis,
//
//   [ floor(lo * num / den) - before, ceil(hi * num / den) + after )
//
// clipped to the axis. Without a halo, multiples of `grain` divide exactly.
// num and den have no common factor; before and after may be negative (a window
// that steps over elements).
struct OperandFlow {
  int axis = -1;  // that is split along; -1: the whole operand is needed
  Dim num{1};
  Dim den{1};
  int64_t before = 0;
  int64_t after = 0;
};

// Element `element` of operand `operand`, a list of extents (Reshape's and
// Expand's shape, Resize's sizes), is the extent of the split axis. When the
// node runs on a part it must be the extent of the result of that part.
struct ShapeEdit {
  int operand = 0;
  int element = 0;
};

// The same for an attribute: it must be num/den of the extent of the part.
// Attributes are fixed in a loop's body, so all parts must be equal.
struct AttributeEdit {
  absl::string_view name;  // "group", "num_groups"
  int element = -1;        // of a list; -1: the attribute is a number
  int64_t num = 1;
  int64_t den = 1;
};

// How the results of parts become the results of the whole.
enum class Combine : uint8_t {
  kNone,  // they are joined along the result axes
  kSum,
  kMax,
  kMin,
  kProd,
  kMean,  // the mean weighted by the extents of the parts
};

// One way to run the node in parts.
//
// Windowed ways. The node keeps its attributes on a part, its padding too, so
// results near an inner border are wrong as far as the halo goes and must be
// cut off:
//
//   begin = the start of the operand's part as above, but with `before` rounded
//           up to a multiple of num; end as above; both clipped to the axis
//   The first result of this part is number begin * den / num of the whole, so
//   [lo, hi) of the whole begins lo - begin * den / num elements behind it, and
//   is all there. Shape edits are the extent before anything is cut off,
//   (end - begin) * den / num.
//
// If `pads` is not empty the node pads by auto_pad, which depends on the size
// of the whole; on parts it must have these explicit `pads` instead, and
// auto_pad NOTSET.
struct SplitWay {
  // One for each result of the node; -1: the result is not split along any axis
  // (it is left out, or the parts must be combined).
  llvm::SmallVector<int, 2> result_axes;
  llvm::SmallVector<OperandFlow, 4> operands;  // one for each operand
  llvm::SmallVector<ShapeEdit, 1> edits;
  llvm::SmallVector<AttributeEdit, 1> attributes;
  Dim extent;    // of the split axes of the results, or that is contracted
  Dim grain{1};  // in elements of `extent`
  Combine combine = Combine::kNone;
  bool windowed = false;  // some operand has a halo or a stride
  std::vector<int64_t> pads;
};

// All ways of the node: first those along an axis of its results, in order of
// the axes of the first result that is there; then contractions. Empty: opaque.
// Axes of extent 0 or 1, and of unknown extent, are not listed, nor ways that
// cut a tensor of which several elements share a byte.
std::vector<SplitWay> SplitWays(const Graph& graph, NodeId node);

// One line without spaces inside a field, for tests:
//   "results=0 extent=batch operands=0:1/1,whole"
//   "results=2 extent=112 operands=2:2/1-3+2,whole windowed"
std::string ToString(const SplitWay& way);

// All nodes and their ways, "NODE: way 0 results=..." or "NODE: opaque".
std::string FlowToString(const Graph& graph);

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_DIMENSION_FLOW_H_
