#include "estimate/launch_configs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace onnx_memopt::estimate {
namespace {

using Json = nlohmann::ordered_json;

bool Is(const PrecisionRow& precision, absl::string_view name) {
  return precision.name == name;
}
// As Accelerate calls it.
absl::string_view Mixed(const PrecisionRow& precision) {
  if (precision.activation_bytes == 4) return "no";
  return Is(precision, "fp16") || Is(precision, "autocast-fp16") ? "fp16"
                                                                 : "bf16";
}

// As DeepSpeed or torch.optim calls it; empty: neither has it.
absl::string_view OptimizerName(absl::string_view name) {
  if (name == "adam") return "Adam";
  if (name == "adamw") return "AdamW";
  if (name == "lion") return "Lion";
  if (name == "sgd" || name == "momentum") return "SGD";
  return "";
}

Json OptimizerSection(const Configuration& c) {
  Json params = {{"lr", 1e-4}};
  const absl::string_view name = c.optimizer->name;
  if (name == "adam" || name == "adamw") {
    params["betas"] = {0.9, 0.999};
    params["eps"] = 1e-8;
    params["weight_decay"] = name == "adamw" ? 0.01 : 0.0;
  } else if (name == "momentum") {
    params["momentum"] = 0.9;
  }
  return {{"type", std::string(OptimizerName(name))}, {"params", params}};
}

}  // namespace

std::string DeepSpeedConfig(const Configuration& c) {
  Json json = {
      {"train_batch_size", c.batch * c.accumulate * c.data_parallel},
      {"train_micro_batch_size_per_gpu", c.batch},
      {"gradient_accumulation_steps", c.accumulate},
  };
  if (!OptimizerName(c.optimizer->name).empty()) {
    json["optimizer"] = OptimizerSection(c);
  }
  const bool weights = !c.precision->autocast;
  const bool half = Mixed(*c.precision) == "fp16";
  json["fp16"] = {{"enabled", weights && half}};
  json["bf16"] = {{"enabled", weights && Mixed(*c.precision) == "bf16"}};
  if (c.precision->autocast) {
    json["torch_autocast"] = {{"enabled", true},
                              {"dtype", half ? "float16" : "bfloat16"}};
  }
  Json zero = {{"stage", c.zero},
               {"reduce_bucket_size", kBucketElements},
               {"allgather_bucket_size", kBucketElements},
               {"overlap_comm", false},
               {"contiguous_gradients", true}};
  if (c.offload_optimizer) {
    zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  }
  if (c.offload_parameters) {
    zero["offload_param"] = {{"device", "cpu"}, {"pin_memory", true}};
  }
  if (c.zero >= 3) {
    zero["stage3_prefetch_bucket_size"] = kBucketElements;
    zero["stage3_max_live_parameters"] = 2 * kBucketElements;
  }
  json["zero_optimization"] = zero;
  return json.dump(2) + "\n";
}

std::string AccelerateConfig(const Configuration& c) {
  const bool deepspeed = c.zero > 0 || c.offload_optimizer;
  std::string yaml = "compute_environment: LOCAL_MACHINE\ndebug: false\n";
  if (deepspeed) {
    absl::StrAppend(
        &yaml, "deepspeed_config:\n",
        "  gradient_accumulation_steps: ", c.accumulate, "\n",
        "  offload_optimizer_device: ", c.offload_optimizer ? "cpu" : "none",
        "\n", "  offload_param_device: ", c.offload_parameters ? "cpu" : "none",
        "\n", "  zero3_init_flag: ", c.zero >= 3 ? "true" : "false", "\n",
        "  zero_stage: ", c.zero, "\n");
  }
  absl::StrAppend(&yaml, "distributed_type: ",
                  deepspeed      ? "DEEPSPEED"
                  : c.gpus() > 1 ? "MULTI_GPU"
                                 : "'NO'",
                  "\ndowncast_bf16: 'no'\n");
  if (!deepspeed && c.gpus() > 1) absl::StrAppend(&yaml, "gpu_ids: all\n");
  absl::StrAppend(&yaml,
                  "machine_rank: 0\nmain_training_function: main\n"
                  "mixed_precision: '",
                  Mixed(*c.precision),
                  "'\nnum_machines: 1\nnum_processes: ", c.data_parallel,
                  "\nrdzv_backend: static\nsame_network: true\n"
                  "use_cpu: false\n");
  return yaml;
}

}  // namespace onnx_memopt::estimate
