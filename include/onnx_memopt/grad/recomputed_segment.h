// What checkpoints do to a step: which values of the forward pass stay, and
// which nodes run again.
//
//   for (const RecomputedSegment& s : result.segments) saved += s.bytes;
#ifndef ONNX_MEMOPT_GRAD_RECOMPUTED_SEGMENT_H_
#define ONNX_MEMOPT_GRAD_RECOMPUTED_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace onnx_memopt::grad {

// Nodes that run again one after the other.
struct RecomputedSegment {
  std::string first;  // node names
  std::string last;
  size_t nodes = 0;
  int64_t bytes = 0;   // of what others read of it, and that was not kept
  double seconds = 0;  // by the model of time
  // Modules of the exporter that the nodes are of, each as deep as it holds
  // all of its nodes in the segment; empty where the model names none.
  std::vector<std::string> modules;
};

// A value of the forward pass that is held until the backward pass reads it.
struct KeptValue {
  std::string name;
  std::string module;  // of the node that makes it; may be empty
  int64_t bytes = 0;
};

// A module of the exporter whose forward pass a PyTorch user would wrap in
// torch.utils.checkpoint to get about the same plan.
struct WrappedModule {
  std::string module;
  int64_t bytes = 0;  // saved for backward in it, and not kept
  size_t nodes = 0;   // that run again
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_RECOMPUTED_SEGMENT_H_
