#include "estimate/advice.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "onnx_memopt/estimate/gpus.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::estimate {
namespace {

std::string CheckpointName(const Configuration& c) {
  switch (c.checkpoint) {
    case CheckpointKind::kNone:
      return "none";
    case CheckpointKind::kSelective:
      return "selective";
    case CheckpointKind::kFull:
      return "full";
    case CheckpointKind::kSqrt:
      return "sqrt";
    case CheckpointKind::kEvery:
      return absl::StrCat(c.checkpoint_every);
    case CheckpointKind::kBudget:
      return absl::StrCat(CeilDiv(c.checkpoint_budget_bytes, int64_t{1} << 20),
                          "MiB");
  }
  return "none";
}

std::string OffloadName(const Configuration& c) {
  std::vector<std::string> what;
  if (c.offload_optimizer) what.emplace_back("optimizer");
  if (c.offload_parameters) what.emplace_back("parameters");
  return absl::StrJoin(what, ",");
}

class Adviser {
 public:
  Adviser(Model* model, const Configuration& configuration,
          const Estimate& base)
      : model_(model), c_(configuration), base_(base) {}

  absl::StatusOr<Advised> Run(std::optional<int64_t> budget_bytes) {
    ASSIGN_OR_RETURN(const Model::View* view, model_->Get(c_));
    view_ = view;
    TryBatch(budget_bytes);
    TryPrecision();
    TryAttention();
    if (c_.training) {
      TryCheckpoints(budget_bytes);
      TryOptimizers();
    }
    TryParallel();
    TryModels();
    RETURN_IF_ERROR(failure_);
    std::stable_sort(advised_.rows.begin(), advised_.rows.end(),
                     [](const EstimateAdvice& a, const EstimateAdvice& b) {
                       return a.saved_bytes > b.saved_bytes;
                     });
    Combine();
    RETURN_IF_ERROR(failure_);
    return std::move(advised_);
  }

 private:
  // Adds the change if it saves something, or if `always`.
  void Try(const std::string& change, const Configuration& c,
           const std::string& cost, bool always = false) {
    const std::optional<EstimateAdvice> row = Measure(change, c, cost);
    if (row && (always || row->saved_bytes > 0)) {
      advised_.rows.push_back(*row);
    }
  }

  std::optional<EstimateAdvice> Measure(const std::string& change,
                                        const Configuration& c,
                                        std::string cost) {
    absl::StatusOr<Estimate> estimate = Evaluate(model_, c, {});
    if (!estimate.ok()) {
      // A degree that does not fit this model is no advice.
      if (estimate.status().code() != absl::StatusCode::kOutOfRange) {
        failure_.Update(estimate.status());
      }
      return std::nullopt;
    }
    if (c.checkpoint != c_.checkpoint) {
      cost = absl::StrFormat("+%.0f%% arithmetic",
                             100 * estimate->recompute_overhead);
    }
    const int64_t total = estimate->worst().total_bytes;
    return EstimateAdvice{.change = change,
                          .flags = FlagsBetween(c_, c),
                          .cost = std::move(cost),
                          .total_bytes = total,
                          .saved_bytes = base_.worst().total_bytes - total};
  }

  void TryBatch(std::optional<int64_t> budget_bytes) {
    if (c_.batch > 1) {
      Configuration c = c_;
      c.batch = c_.batch / 2;
      if (c_.training) c.accumulate = c_.accumulate * 2;
      Try("half the batch, twice the steps", c,
          "same result; less arithmetic at once");
      if (c_.batch > 2) {
        c.batch = 1;
        if (c_.training) c.accumulate = c_.accumulate * c_.batch;
        Try("one sample at a time", c, "same result; slowest");
      }
    }
    if (!budget_bytes || base_.worst().total_bytes >= *budget_bytes) return;
    const absl::StatusOr<int64_t> largest =
        LargestBatch(model_, c_, *budget_bytes);
    if (!largest.ok() || *largest <= c_.batch) return;
    Configuration c = c_;
    c.batch = *largest;
    Try("the largest batch that fits", c, "faster; other learning rate",
        /*always=*/true);
  }

  void TryPrecision() {
    Configuration c = c_;
    if (c_.precision->name == "fp32") {
      c.precision = FindPrecision("bf16");
      Try("16-bit mixed precision", c, "faster on recent GPUs");
      c.precision = FindPrecision("autocast-bf16");
      Try("torch.autocast", c, "faster on recent GPUs");
    }
    if (c_.precision->name != "bf16-pure") {
      c.precision = FindPrecision("bf16-pure");
      Try("pure bfloat16", c, "may train worse");
    }
  }

  void TryAttention() {
    if (c_.fused_attention || view_->facts.attentions == 0) return;
    Configuration c = c_;
    c.fused_attention = true;
    Try("fused attention (FlashAttention)", c, "faster");
  }

  void TryCheckpoints(std::optional<int64_t> budget_bytes) {
    if (c_.checkpoint != CheckpointKind::kNone) return;
    Configuration c = c_;
    if (view_->facts.attentions > 0 && !c_.fused_attention) {
      c.checkpoint = CheckpointKind::kSelective;
      Try("recompute attention scores", c, "");
    }
    if (view_->blocks.blocks.empty()) return;
    c.checkpoint = CheckpointKind::kFull;
    Try("checkpoint every block", c, "");
    c.checkpoint = CheckpointKind::kSqrt;
    Try("checkpoint groups of blocks", c, "");
    if (!budget_bytes || base_.worst().total_bytes <= *budget_bytes) return;
    c.checkpoint = CheckpointKind::kBudget;
    c.checkpoint_budget_bytes = *budget_bytes;
    Try("checkpoint what makes it fit", c, "");
  }

  void TryOptimizers() {
    for (const auto& [name, cost] :
         {std::pair("adam8bit", "needs bitsandbytes"),
          std::pair("adafactor", "other convergence"),
          std::pair("lion", "other convergence"),
          std::pair("momentum", "other convergence")}) {
      if (c_.optimizer->name == name) continue;
      Configuration c = c_;
      c.optimizer = FindOptimizer(name);
      Try(absl::StrCat("optimizer ", name), c, cost);
    }
  }

  void TryParallel() {
    const int64_t gpus = c_.data_parallel > 1 ? c_.data_parallel : 8;
    const std::string needs = c_.data_parallel > 1
                                  ? "more communication"
                                  : absl::StrCat("needs ", gpus, " GPUs");
    if (c_.training) {
      for (int level = c_.zero + 1; level <= 3; ++level) {
        Configuration c = c_;
        c.data_parallel = gpus;
        c.zero = level;
        Try(absl::StrCat("ZeRO-", level, " over ", gpus, " GPUs"), c, needs);
      }
      if (!c_.offload_optimizer) {
        Configuration c = c_;
        c.zero = std::max(c_.zero, 2);
        c.offload_optimizer = true;
        Try("optimizer state in host memory", c, "slower: traffic to the host");
      }
    }
    if (c_.tensor_parallel == 1) {
      for (const int64_t ways : {8, 4, 2}) {
        Configuration c = c_;
        c.tensor_parallel = ways;
        c.sequence_parallel = true;
        const size_t before = advised_.rows.size();
        Try(absl::StrCat("tensor parallel over ", ways, " GPUs"), c,
            absl::StrCat("needs ", ways, " linked GPUs"));
        if (advised_.rows.size() > before) break;
      }
    }
    if (c_.pipeline_parallel == 1 && c_.training) {
      Configuration c = c_;
      c.pipeline_parallel = 4;
      c.micro_batches = 8;
      Try("pipeline of 4 GPUs", c, "needs 4 GPUs");
    }
  }

  void TryModels() {
    const auto attempt = [&](ModelChange change, const std::string& name,
                             const std::string& cost) {
      Configuration c = c_;
      c.change = change;
      Try(name, c, cost);
    };
    if (c_.training) {
      attempt(ModelChange::kAdapters, "adapters of rank 8 (LoRA)",
              "fine-tuning only");
    }
    attempt(ModelChange::kLowRank, "matrices of a quarter of the rank",
            "train again; less exact");
    if (!view_->blocks.repeated || view_->blocks.skips) return;
    attempt(ModelChange::kShareBlocks, "blocks that share parameters",
            "train again; less exact");
    attempt(ModelChange::kHalfBlocks, "a student of half the blocks",
            "distillation; less exact");
  }

  // What needs neither more GPUs nor another model.
  void Combine() {
    Configuration c = c_;
    std::vector<std::string> parts;
    if (c.precision->name == "fp32") {
      c.precision = FindPrecision("bf16");
      parts.emplace_back("16-bit mixed precision");
    }
    if (!c.fused_attention && view_->facts.attentions > 0) {
      c.fused_attention = true;
      parts.emplace_back("fused attention");
    }
    if (c.training && c.checkpoint == CheckpointKind::kNone &&
        !view_->blocks.blocks.empty()) {
      c.checkpoint = CheckpointKind::kFull;
      parts.emplace_back("checkpoint every block");
    }
    if (c.training && c.optimizer->moments == 2 &&
        c.optimizer->kind == StateKind::kPerElement) {
      c.optimizer = FindOptimizer("adam8bit");
      parts.emplace_back("8-bit Adam");
    }
    if (parts.size() < 2) return;
    const std::optional<EstimateAdvice> row =
        Measure(absl::StrJoin(parts, ", "), c, "");
    if (row && row->saved_bytes > 0) advised_.combination = row;
  }

  Model* model_;
  const Configuration& c_;
  const Estimate& base_;
  const Model::View* view_ = nullptr;
  absl::Status failure_;
  Advised advised_;
};

// A set of changes with the price of each: extra time first, then hardware.
struct Candidate {
  Configuration configuration;
  std::vector<std::string> changes;
  int price = 0;
  int64_t live_bytes = -1;   // with no allocator; -1: not yet known
  int64_t total_bytes = -1;  // with it
};

absl::StatusOr<int64_t> Total(Model* model, const Configuration& c,
                              bool allocators) {
  ASSIGN_OR_RETURN(const Estimate estimate,
                   Evaluate(model, c, {.allocators = allocators}));
  return estimate.worst().total_bytes;
}

std::vector<Candidate> Candidates(const Model::View& view,
                                  const Configuration& base) {
  std::vector<Candidate> list = {{.configuration = base}};
  const auto extend = [&](const std::function<void(
                              const Candidate&, std::vector<Candidate>*)>& f) {
    std::vector<Candidate> longer = list;
    for (const Candidate& candidate : list) f(candidate, &longer);
    list = std::move(longer);
  };
  const auto with = [](const Candidate& from, absl::string_view change,
                       int price) {
    Candidate candidate = from;
    candidate.changes.emplace_back(change);
    candidate.price += price;
    return candidate;
  };
  if (!base.fused_attention && view.facts.attentions > 0) {
    extend([&](const Candidate& c, std::vector<Candidate>* out) {
      out->push_back(with(c, "fused attention", 1));
      out->back().configuration.fused_attention = true;
    });
  }
  if (base.precision->name == "fp32") {
    extend([&](const Candidate& c, std::vector<Candidate>* out) {
      out->push_back(with(c, "16-bit mixed precision", 2));
      out->back().configuration.precision = FindPrecision("bf16");
    });
  }
  if (base.batch > 1) {
    extend([&](const Candidate& c, std::vector<Candidate>* out) {
      int price = 4;
      for (int64_t parts = 2; parts <= base.batch; parts *= 2) {
        const int64_t batch = (base.batch + parts - 1) / parts;
        out->push_back(with(c, absl::StrCat("batch ", batch), price));
        out->back().configuration.batch = batch;
        if (base.training) {
          out->back().configuration.accumulate = base.accumulate * parts;
          out->back().changes.back() += absl::StrCat(" x ", parts);
        }
        ++price;
      }
    });
  }
  if (!base.training) return list;
  if (base.checkpoint == CheckpointKind::kNone) {
    extend([&](const Candidate& c, std::vector<Candidate>* out) {
      if (view.facts.attentions > 0 && !c.configuration.fused_attention) {
        out->push_back(with(c, "recompute attention", 6));
        out->back().configuration.checkpoint = CheckpointKind::kSelective;
      }
      if (view.blocks.blocks.empty()) return;
      out->push_back(with(c, "checkpoint every block", 12));
      out->back().configuration.checkpoint = CheckpointKind::kFull;
    });
  }
  if (base.optimizer->moments == 2 &&
      base.optimizer->kind == StateKind::kPerElement) {
    extend([&](const Candidate& c, std::vector<Candidate>* out) {
      out->push_back(with(c, "8-bit Adam", 9));
      out->back().configuration.optimizer = FindOptimizer("adam8bit");
    });
  }
  if (base.data_parallel == 1 && base.zero == 0) {
    extend([&](const Candidate& c, std::vector<Candidate>* out) {
      out->push_back(with(c, "optimizer in host memory", 25));
      out->back().configuration.zero = 2;
      out->back().configuration.offload_optimizer = true;
      out->push_back(with(c, "ZeRO-3 on 8 GPUs", 60));
      out->back().configuration.zero = 3;
      out->back().configuration.data_parallel = 8;
    });
  }
  return list;
}

}  // namespace

std::string FlagsBetween(const Configuration& from, const Configuration& to) {
  std::vector<std::string> flags;
  const auto add = [&](bool differs, absl::string_view flag,
                       const std::string& value) {
    if (differs) flags.push_back(absl::StrCat("--", flag, " ", value));
  };
  add(from.precision != to.precision, "precision",
      std::string(to.precision->name));
  add(from.optimizer != to.optimizer, "optimizer",
      std::string(to.optimizer->name));
  add(from.fused_attention != to.fused_attention, "attention", "fused");
  add(CheckpointName(from) != CheckpointName(to), "checkpoint",
      CheckpointName(to));
  add(from.batch != to.batch, "batch", absl::StrCat(to.batch));
  add(from.accumulate != to.accumulate, "accumulate",
      absl::StrCat(to.accumulate));
  add(from.data_parallel != to.data_parallel, "dp",
      absl::StrCat(to.data_parallel));
  add(from.zero != to.zero, "zero", absl::StrCat(to.zero));
  add(OffloadName(from) != OffloadName(to), "offload", OffloadName(to));
  add(from.tensor_parallel != to.tensor_parallel, "tp",
      absl::StrCat(to.tensor_parallel));
  if (!from.sequence_parallel && to.sequence_parallel) {
    flags.emplace_back("--sequence-parallel");
  }
  add(from.pipeline_parallel != to.pipeline_parallel, "pp",
      absl::StrCat(to.pipeline_parallel));
  add(from.micro_batches != to.micro_batches, "micro-batches",
      absl::StrCat(to.micro_batches));
  return absl::StrJoin(flags, " ");
}

absl::StatusOr<Advised> Advise(Model* model, const Configuration& configuration,
                               const Estimate& base,
                               std::optional<int64_t> budget_bytes) {
  return Adviser(model, configuration, base).Run(budget_bytes);
}

absl::StatusOr<std::vector<EstimateFit>> FitGpus(
    Model* model, const Configuration& configuration, const Estimate& base,
    const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const Model::View* view, model->Get(configuration));
  std::vector<Candidate> candidates = Candidates(*view, configuration);
  std::stable_sort(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.price < b.price; });
  std::vector<EstimateFit> fits;
  for (const Gpu& gpu : AllGpus()) {
    if (!names.empty() &&
        std::find(names.begin(), names.end(), gpu.name) == names.end()) {
      continue;
    }
    EstimateFit fit{.gpu = gpu.name,
                    .kind = gpu.kind,
                    .memory_bytes = gpu.memory_bytes,
                    .bandwidth_gbs = gpu.bandwidth_gbs,
                    .nvlink_gbs = gpu.nvlink_gbs,
                    .tflops_32 = gpu.tflops_32,
                    .tflops_tf32 = gpu.tflops_tf32,
                    .tflops_16 = gpu.tflops_16,
                    .tflops_8 = gpu.tflops_8,
                    .source = gpu.source,
                    .address = gpu.address};
    fit.free_bytes = gpu.memory_bytes - base.worst().total_bytes;
    fit.fits = fit.free_bytes >= 0;
    for (Candidate& candidate : candidates) {
      if (fit.fits) break;
      // The allocator is asked only where the live peak leaves room.
      if (candidate.live_bytes < 0) {
        ASSIGN_OR_RETURN(candidate.live_bytes,
                         Total(model, candidate.configuration, false));
      }
      if (candidate.live_bytes > gpu.memory_bytes) continue;
      if (candidate.total_bytes < 0) {
        ASSIGN_OR_RETURN(candidate.total_bytes,
                         Total(model, candidate.configuration, true));
      }
      if (candidate.total_bytes > gpu.memory_bytes) continue;
      fit.changes = candidate.changes;
      fit.flags = FlagsBetween(configuration, candidate.configuration);
      fit.changed_total_bytes = candidate.total_bytes;
      break;
    }
    fits.push_back(std::move(fit));
  }
  return fits;
}

}  // namespace onnx_memopt::estimate
