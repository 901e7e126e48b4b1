// Bytes that parameters bring with them in training: weights, gradients, a
// float32 master copy, optimizer state; and how ZeRO spreads them.
//
//   const PrecisionRow& fp16 = *FindPrecision("fp16");
//   fp16.weight_bytes + fp16.gradient_bytes + fp16.master_bytes;   // 2 + 2 + 4
//   OptimizerStateBytes(*FindOptimizer("adam"), fp16, {768, 768}); // 8 each
//
// The two tables are data: a new optimizer or precision is a row.
#ifndef ONNX_MEMOPT_ESTIMATE_STATES_H_
#define ONNX_MEMOPT_ESTIMATE_STATES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace onnx_memopt::estimate {

struct PrecisionRow {
  absl::string_view name;
  // Bytes of each number.
  int64_t weight_bytes = 4;
  int64_t gradient_bytes = 4;
  int64_t master_bytes = 0;  // a second copy that the optimizer updates
  int64_t state_bytes = 4;   // of one number of optimizer state
  int64_t activation_bytes = 4;
  bool autocast = false;  // 16 bits only where torch.autocast has them
  absl::string_view meaning;
};

enum class StateKind : uint8_t {
  kPerElement,  // `moments` numbers for each parameter
  kFactored,    // a row and a column for each matrix (Adafactor)
  kBlockwise8,  // `moments` bytes, and a scale for each block of 256
};

struct OptimizerRow {
  absl::string_view name;
  StateKind kind = StateKind::kPerElement;
  int64_t moments = 0;
  // Numbers of temporary memory for each parameter in the update, where all
  // parameters are updated at once (PyTorch's default on a GPU).
  int64_t temporaries = 0;
  absl::string_view formula;  // of the state; N is the number of parameters
};

absl::Span<const PrecisionRow> AllPrecisions();
absl::Span<const OptimizerRow> AllOptimizers();
// nullptr: no such name.
const PrecisionRow* FindPrecision(absl::string_view name);
const OptimizerRow* FindOptimizer(absl::string_view name);

// State of one parameter tensor with these dims.
int64_t OptimizerStateBytes(const OptimizerRow& optimizer,
                            const PrecisionRow& precision,
                            absl::Span<const int64_t> dims);

// Sums over the parameters of one GPU, before ZeRO.
struct StateBytes {
  int64_t parameters = 0;
  int64_t gradients = 0;
  int64_t master = 0;
  int64_t optimizer = 0;
};

struct ZeroOptions {
  int level = 0;                    // 0 to 3
  int64_t ranks = 1;                // that share the states: data parallel
  bool offload_optimizer = false;   // and with it gradients, to the host
  bool offload_parameters = false;  // level 3 only
};

// What stays on each GPU. Level 1 divides optimizer state and master weights,
// level 2 gradients too, level 3 parameters too.
StateBytes Partition(const StateBytes& whole, const ZeroOptions& zero);
// What goes to the host's memory, for each GPU.
int64_t OffloadedBytes(const StateBytes& whole, const ZeroOptions& zero);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_STATES_H_
