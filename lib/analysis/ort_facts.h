// The numbers that the runtime model takes from one version of ONNX Runtime.
// Scratch of kernels is in ort_scratch.cc, a rule per op; which ops are views
// or run in place is in the op table (docs/ops.md), of the same version.
// bench/probe_ort.py checks all of them against an installed ONNX Runtime;
// docs/runtime_model.md says how each was found.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_ORT_FACTS_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_ORT_FACTS_H_

#include <cstdint>

namespace onnx_memopt::analysis::ort {

// The version that the facts were checked on.
inline constexpr const char kVersion[] = "1.32.0";

// --- The arena ---

// The first region, if the first request fits; else the next power of two.
inline constexpr int64_t kInitialRegionBytes = 1 << 20;
// Requests are rounded up to this.
inline constexpr int64_t kArenaAlignmentBytes = 256;
// A free chunk that would leave more than this unused is split, and so is one
// of twice the request.
inline constexpr int64_t kMaxDeadBytes = 128 << 20;
// A region comes with a table of one handle of 8 bytes for each 256 bytes.
inline constexpr int64_t kRegionTableDivisor = 32;

// --- The memory pattern ---

// Sizes of tensors in the planned block are rounded up to this.
inline constexpr int64_t kPatternAlignmentBytes = 64;

// --- Scratch of kernels ---

// Conv: floats that each thread unfolds the image into, a piece at a time.
inline constexpr int64_t kConvBufferFloats = 16384;
// Multiply-adds that are worth a thread of their own.
inline constexpr int64_t kGemmThreadComplexity = 65536;
// Columns of a matrix product are dealt out to threads in multiples of this.
inline constexpr int64_t kGemmThreadAlign = 16;

// Channels in a block of the runtime's own layout of images: 8, or 16 where the
// machine has AVX-512. It has images in it whose channels are whole blocks.
inline constexpr int64_t kChannelBlock = 8;
// A convolution of images with more channels takes multiples of this.
inline constexpr int64_t kChannelAlign = 4;
// How far back it is looked for what made an image in that layout.
inline constexpr int kMaxBlockedSteps = 64;

// MultiHeadAttention: cache that blocks of keys and scores should fit in. Of
// the machine: the second level's size.
inline constexpr int64_t kFlashCacheBytes = 2 << 20;

// --- The process ---

// What a run takes beside tensors and scratch: the frame, the call from Python,
// stacks and heaps of threads.
inline constexpr int64_t kFirstRunBytes = 384 << 10;
inline constexpr int64_t kSteadyRunBytes = 640 << 10;

}  // namespace onnx_memopt::analysis::ort

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_ORT_FACTS_H_
