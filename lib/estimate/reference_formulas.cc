#include "onnx_memopt/estimate/reference_formulas.h"

#include <algorithm>
#include <cstdint>

namespace onnx_memopt::estimate {

int64_t RuleOfThumbBytes(int64_t parameters, int64_t activation_bytes_a_sample,
                         int64_t batch, int64_t optimizer_state_bytes) {
  return 4 * parameters + activation_bytes_a_sample * batch +
         optimizer_state_bytes;
}

int64_t DeepSpeedZero2Bytes(const DeepSpeedModel& model,
                            bool offload_optimizer) {
  if (offload_optimizer) return 2 * model.parameters;
  return 4 * model.parameters + 16 * model.parameters / model.gpus;
}

int64_t DeepSpeedZero3Bytes(const DeepSpeedModel& model, bool offload_optimizer,
                            bool offload_parameters) {
  const int64_t largest = 4 * model.largest_layer;
  if (offload_optimizer && offload_parameters) return largest;
  const int64_t bytes = offload_optimizer ? 2 : 18;
  return largest + bytes * model.parameters / model.gpus;
}

AccelerateEstimate AccelerateBytes(int64_t parameters, int64_t parameter_bytes,
                                   int64_t buffer_bytes) {
  const int64_t total = parameters * parameter_bytes + buffer_bytes;
  return {.inference_bytes = total, .training_bytes = 4 * total};
}

int64_t KorthikantiLayerBytes(const TransformerLayer& layer,
                              LayerRecompute recompute,
                              bool sequence_parallel) {
  const int64_t sbh = layer.sequence * layer.batch * layer.hidden;
  const int64_t scores =
      5 * layer.heads * layer.sequence * layer.sequence * layer.batch;
  const int64_t t = layer.tensor_parallel;
  if (recompute == LayerRecompute::kFull) return 2 * sbh;
  const int64_t kept = recompute == LayerRecompute::kNone ? scores : 0;
  if (sequence_parallel) return (34 * sbh + kept) / t;
  return 10 * sbh + (24 * sbh + kept) / t;
}

double MegatronStateBytes(double parameters, int64_t data_parallel,
                          bool distributed_optimizer) {
  const double bytes =
      distributed_optimizer ? 6 + 12 / static_cast<double>(data_parallel) : 18;
  return parameters * bytes;
}

double MegatronActivationBytes(const MegatronModel& model) {
  const auto sbh = static_cast<double>(model.layer.sequence *
                                       model.layer.batch * model.layer.hidden);
  const auto hidden = static_cast<double>(model.layer.hidden);
  const auto stages = static_cast<double>(model.pipeline_parallel);
  const double layer =
      sbh * (18 + 4 * static_cast<double>(model.ffn_hidden) / hidden);
  double bytes = layer * static_cast<double>(model.layers);
  // Token ids and the dropout of the embedding, for each micro-batch in flight.
  bytes += 8.0 * static_cast<double>(model.layer.sequence * model.layer.batch) *
           stages;
  bytes += sbh * stages;
  if (model.virtual_stages > 1) {
    bytes *=
        1 + (stages - 1) / (stages * static_cast<double>(model.virtual_stages));
  } else {
    bytes *= std::min(1.0, static_cast<double>(model.micro_batches) / stages);
  }
  if (model.pipeline_parallel == 1) {
    bytes += 4 * sbh * (1 + static_cast<double>(model.vocabulary) / hidden);
  }
  return bytes / static_cast<double>(model.layer.tensor_parallel);
}

}  // namespace onnx_memopt::estimate
