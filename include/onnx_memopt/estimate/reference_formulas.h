// Formulas that others have published, as they published them. The report shows
// them beside what follows from the graph, and tests compare the two.
//
//   // DeepSpeed's documentation: t5-3b on 8 GPUs with ZeRO-2 takes 15.93 GiB.
//   DeepSpeedZero2Bytes({.parameters = 2'851'598'336, .gpus = 8});
#ifndef ONNX_MEMOPT_ESTIMATE_REFERENCE_FORMULAS_H_
#define ONNX_MEMOPT_ESTIMATE_REFERENCE_FORMULAS_H_

#include <cstdint>

namespace onnx_memopt::estimate {

// The rule of thumb M = 4 N + A B + S: float32 parameters, A activation bytes a
// sample, B samples, S bytes of optimizer state.
int64_t RuleOfThumbBytes(int64_t parameters, int64_t activation_bytes_a_sample,
                         int64_t batch, int64_t optimizer_state_bytes);

// DeepSpeed, docs/code-docs/source/memory.rst: model states of one GPU, for
// 16-bit training with Adam.
struct DeepSpeedModel {
  int64_t parameters = 0;
  int64_t largest_layer = 0;  // parameters of it; ZeRO-3 only
  int64_t gpus = 1;
};
int64_t DeepSpeedZero2Bytes(const DeepSpeedModel& model,
                            bool offload_optimizer = false);
int64_t DeepSpeedZero3Bytes(const DeepSpeedModel& model,
                            bool offload_optimizer = false,
                            bool offload_parameters = false);

// Accelerate's estimate-memory: parameters and buffers of a checkpoint, and for
// training with Adam four times that.
struct AccelerateEstimate {
  int64_t inference_bytes = 0;
  int64_t training_bytes = 0;
};
AccelerateEstimate AccelerateBytes(int64_t parameters, int64_t parameter_bytes,
                                   int64_t buffer_bytes);

// Korthikanti et al., Reducing Activation Recomputation in Large Transformer
// Models (MLSys 2023), table 2: bytes of activations of one layer in 16 bits.
struct TransformerLayer {
  int64_t sequence = 0;
  int64_t batch = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t tensor_parallel = 1;
};
enum class LayerRecompute : uint8_t { kNone, kSelective, kFull };
int64_t KorthikantiLayerBytes(const TransformerLayer& layer,
                              LayerRecompute recompute, bool sequence_parallel);

// Megatron-LM's theoretical_memory_usage.py.
struct MegatronModel {
  int64_t layers = 0;
  int64_t ffn_hidden = 0;
  int64_t vocabulary = 0;
  int64_t pipeline_parallel = 1;
  int64_t virtual_stages = 1;  // more than 1: interleaved
  int64_t micro_batches = 1;
  TransformerLayer layer;
};
// Weights, gradients and optimizer state of `parameters` on one GPU.
double MegatronStateBytes(double parameters, int64_t data_parallel,
                          bool distributed_optimizer);
// Activations of the first stage, sequence parallel with selective
// recomputation.
double MegatronActivationBytes(const MegatronModel& model);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_REFERENCE_FORMULAS_H_
