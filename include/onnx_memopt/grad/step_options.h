// What a training step computes: loss, optimizer, parameters.
//
//   StepOptions options{.loss = Loss::kMeanSquaredError,
//                       .optimizer = Optimizer::kAdamW};
#ifndef ONNX_MEMOPT_GRAD_STEP_OPTIONS_H_
#define ONNX_MEMOPT_GRAD_STEP_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onnx_memopt::grad {

enum class Loss : uint8_t {
  // Mean over all positions of the cross-entropy of the output's last axis;
  // "target" holds classes, int64, with the output's other axes.
  kCrossEntropy,
  // Mean of the squared difference from "target".
  kMeanSquaredError,
  // The output is the loss: one number. There is no "target".
  kOutput,
};

enum class Optimizer : uint8_t {
  kNone,  // no updates: the results are the gradients, "PARAMETER.grad"
  kSgd,
  kMomentum,
  kAdam,
  kAdamW,  // Adam with the weight decay beside the gradient, not in it
};

// What the forward and the backward pass compute in. Parameters, states and
// updates are as the model has them, in float32.
enum class Precision : uint8_t {
  kFloat32,   // as the model is
  kFloat16,   // with a loss scale that the step adapts
  kBfloat16,  // has the range of float32 and needs no scale
};

// Knowledge distillation: Hinton, Vinyals and Dean, 2015. The loss becomes
//
//   alpha * T^2 * KL(softmax(teacher / T) || softmax(student / T))
//     + (1 - alpha) * loss + match_weight * sum of mean((student - teacher)^2)
//
// with the mean of KL over all positions. Where `loss` is kMeanSquaredError,
// the first term is alpha * mean((student - teacher)^2). The teacher is part of
// the graph already, computed from its inputs; it gets no gradients, and
// BatchNormalization and Dropout in it run as in inference.
struct Distillation {
  // Of all names of the teacher's values (io/append_model.h).
  std::string prefix = "teacher/";
  // What the student's output is compared with, without the prefix.
  std::string teacher_output;
  // The student's output; empty: the one that the loss is of. Needed where
  // `loss` is kOutput.
  std::string soft_output;
  std::optional<double> temperature;  // above 0; not given: 2
  double alpha = 0.5;                 // from 0 to 1
  // Feature matching: a tensor of the student, and one of the teacher without
  // the prefix, of the same shape.
  std::vector<std::pair<std::string, std::string>> match;
  double match_weight = 1;
};

struct StepOptions {
  Loss loss = Loss::kCrossEntropy;
  // Which output the loss is of; may be empty if the model has only one of a
  // floating-point type.
  std::string output;
  // Class that is left out of the mean.
  std::optional<int64_t> ignore_index;

  Optimizer optimizer = Optimizer::kSgd;
  double momentum = 0.9;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  // The gradients are scaled down together where their norm is larger. All of
  // them are held until the norm is known.
  std::optional<double> clip_norm;
  // Each element of a gradient is cut to [-clip_value, clip_value].
  std::optional<double> clip_value;

  // Patterns of names with "*" and "?". `train` adds what is left out by
  // default; `freeze` wins.
  std::vector<std::string> train;
  std::vector<std::string> freeze;
  // Gradients are results too.
  bool gradients = false;

  // Micro-batches in a step, one after the other. The model's batch is that of
  // one of them, and the step's inputs hold this many.
  int64_t accumulate = 1;
  Precision precision = Precision::kFloat32;
  // Of kFloat16: what the loss scale begins with, and the number of steps
  // without overflow after which it doubles.
  double loss_scale = 65536;
  int64_t loss_scale_steps = 2000;

  std::optional<Distillation> distillation;
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_STEP_OPTIONS_H_
