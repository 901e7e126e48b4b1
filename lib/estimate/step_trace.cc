#include "onnx_memopt/estimate/step_trace.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

constexpr int32_t kNone = -1;

LossKind LossOfModel(const ModelFacts& facts, LossKind asked) {
  if (asked != LossKind::kAuto) return asked;
  return facts.output_rank > 3 ? LossKind::kMeanSquaredError
                               : LossKind::kCrossEntropy;
}

class Tracer {
 public:
  Tracer(const ModelFacts& facts, const TraceOptions& options)
      : facts_(facts),
        options_(options),
        begin_(options.begin),
        end_(options.end < 0 ? static_cast<UnitIndex>(facts.units.size())
                             : options.end),
        is_last_(end_ == static_cast<UnitIndex>(facts.units.size())),
        loss_(LossOfModel(facts, options.loss)),
        segment_of_(facts.units.size(), kNone),
        last_use_(facts.buffers.size(), kNone),
        release_(facts.buffers.size(), kNone),
        block_of_(facts.buffers.size(), kNone),
        replay_of_(facts.buffers.size(), kNone),
        gradient_of_(facts.buffers.size(), kNone),
        parameter_gradient_(facts.parameters.size(), kNone) {
    for (size_t i = 0; i < options.checkpoints.size(); ++i) {
      const Checkpoint& c = options.checkpoints[i];
      for (UnitIndex u = std::max(c.begin, begin_); u < std::min(c.end, end_);
           ++u) {
        segment_of_[u] = static_cast<int32_t>(i);
      }
    }
    FindUses();
  }

  StepTrace Run() {
    for (const PersistentBlock& block : options_.persistent) {
      Allocate({.bytes = block.bytes,
                .category = block.category,
                .name = block.name});
    }
    if (options_.training && options_.waiting_batches > 0) {
      Allocate({.bytes = CheckedMul(Saved(), options_.waiting_batches)
                             .value_or(INT64_MAX),
                .category = Category::kSaved,
                .name = "micro-batches in flight"});
    }
    AllocateInputs();
    Mark(Phase::kStart, kNone);
    for (UnitIndex u = begin_; u < end_; ++u) Forward(u);
    if (options_.training) {
      Loss();
      for (UnitIndex u = end_ - 1; u >= begin_; --u) Backward(u);
      FreeAll(&gradient_of_);
      FreeAll(&block_of_);
      std::vector<int32_t> temporaries;
      temporaries.reserve(options_.optimizer_temporary_bytes.size());
      for (const int64_t bytes : options_.optimizer_temporary_bytes) {
        temporaries.push_back(
            Allocate({.bytes = bytes, .name = "a temporary of the optimizer"}));
      }
      Mark(Phase::kOptimizer, kNone);
      for (int32_t block : temporaries) Free(block);
    }
    return std::move(trace_);
  }

  // Of one micro-batch, by unit.
  std::vector<int64_t> SavedOfUnits() const {
    std::vector<int64_t> bytes(facts_.units.size());
    for (size_t b = 0; b < facts_.buffers.size(); ++b) {
      if (release_[b] == kNone || facts_.buffers[b].is_output) continue;
      bytes[release_[b]] =
          SaturatingAdd(bytes[release_[b]], Bytes(static_cast<BufferIndex>(b)));
    }
    return bytes;
  }
  int64_t Saved() const {
    int64_t sum = 0;
    for (int64_t bytes : SavedOfUnits()) sum = SaturatingAdd(sum, bytes);
    return sum;
  }

 private:
  int64_t Bytes(BufferIndex b) const {
    return BufferBytes(facts_.buffers[b], options_);
  }

  bool in_stage(UnitIndex u) const { return u >= begin_ && u < end_; }

  // When forward is done with each buffer, and which unit's backward is.
  void FindUses() {
    std::vector<UnitIndex> writer(facts_.buffers.size(), kNone);
    written_here_.assign(facts_.buffers.size(), false);
    for (UnitIndex u = begin_; u < end_; ++u) {
      const UnitFact& unit = facts_.units[u];
      for (BufferIndex b : unit.writes) {
        writer[b] = u;
        written_here_[b] = true;
        last_use_[b] = std::max(last_use_[b], u);
      }
      for (BufferIndex b : unit.reads) last_use_[b] = std::max(last_use_[b], u);
    }
    for (UnitIndex u = end_ - 1; u >= begin_ && options_.training; --u) {
      const UnitFact& unit = facts_.units[u];
      const int32_t segment = segment_of_[u];
      if (segment == kNone) {
        for (BufferIndex b : unit.saves) release_[b] = u;
        continue;
      }
      const UnitIndex first =
          std::max(options_.checkpoints[segment].begin, begin_);
      // What comes from outside is needed to compute the segment again.
      for (BufferIndex b : unit.reads) {
        if (writer[b] == kNone || writer[b] < first) release_[b] = first;
      }
    }
  }

  // ---- blocks

  int32_t Allocate(TraceBlock block) {
    const auto id = static_cast<int32_t>(trace_.blocks.size());
    block.bytes = std::min(block.bytes, kMostBlockBytes);
    trace_.blocks.push_back(std::move(block));
    trace_.events.push_back({.block = id, .allocate = true});
    references_.push_back(1);
    return id;
  }
  void Free(int32_t block) {
    if (block == kNone || --references_[block] > 0) return;
    trace_.events.push_back({.block = block, .allocate = false});
  }
  void FreeAll(std::vector<int32_t>* blocks) {
    for (size_t b = 0; b < blocks->size(); ++b) {
      const bool stays = blocks == &block_of_ && (facts_.buffers[b].is_input ||
                                                  facts_.buffers[b].is_output);
      if ((*blocks)[b] == kNone || stays) continue;
      Free((*blocks)[b]);
      (*blocks)[b] = kNone;
    }
  }
  void Mark(Phase phase, UnitIndex unit, bool recompute = false) {
    trace_.points.push_back(
        {.phase = phase,
         .unit = unit,
         .recompute = recompute,
         .end_event = static_cast<int32_t>(trace_.events.size())});
  }

  Category CategoryOf(BufferIndex b) const {
    const BufferFact& buffer = facts_.buffers[b];
    if (buffer.is_input) return Category::kInputs;
    if (buffer.is_output) return Category::kLoss;
    return release_[b] != kNone ? Category::kSaved : Category::kTemporary;
  }
  void AllocateBuffer(BufferIndex b) {
    block_of_[b] =
        Allocate({.bytes = Bytes(b), .category = CategoryOf(b), .buffer = b});
  }
  void AllocateInputs() {
    for (size_t i = 0; i < facts_.buffers.size(); ++i) {
      const auto b = static_cast<BufferIndex>(i);
      // Inputs, and what comes from the stage before.
      if (last_use_[b] != kNone && !written_here_[b]) AllocateBuffer(b);
    }
  }
  void FreeBuffer(BufferIndex b) {
    if (block_of_[b] == kNone || facts_.buffers[b].is_input ||
        facts_.buffers[b].is_output) {
      return;
    }
    Free(block_of_[b]);
    block_of_[b] = kNone;
  }

  // ---- phases

  void Forward(UnitIndex u) {
    const UnitFact& unit = facts_.units[u];
    for (BufferIndex b : unit.writes) AllocateBuffer(b);
    Mark(Phase::kForward, u);
    const auto done = [&](BufferIndex b) {
      if (last_use_[b] == u && release_[b] == kNone) FreeBuffer(b);
    };
    for (BufferIndex b : unit.writes) done(b);
    for (BufferIndex b : unit.reads) done(b);
  }

  void Loss() {
    for (BufferIndex output : facts_.outputs) {
      const BufferFact& buffer = facts_.buffers[output];
      if (block_of_[output] == kNone || !buffer.has_gradient || !is_last_) {
        continue;
      }
      const bool scored = loss_done_;
      loss_done_ = true;
      if (!scored && loss_ != LossKind::kNone) {
        LossOf(output);
        continue;
      }
      // Other outputs have no part in the loss.
      if (loss_ == LossKind::kNone) {
        gradient_of_[output] = Gradient(output);
      }
    }
    // A stage that is not the last gets the gradients of what it sent.
    if (!is_last_) {
      for (size_t i = 0; i < facts_.buffers.size(); ++i) {
        const auto b = static_cast<BufferIndex>(i);
        if (written_here_[b] && facts_.buffers[b].has_gradient && SentOn(b)) {
          gradient_of_[b] = Gradient(b);
        }
      }
    }
    Mark(Phase::kLoss, kNone);
  }

  bool SentOn(BufferIndex b) const {
    if (facts_.buffers[b].is_output) return true;
    for (auto u = end_; u < static_cast<UnitIndex>(facts_.units.size()); ++u) {
      const BufferList& reads = facts_.units[u].reads;
      if (std::find(reads.begin(), reads.end(), b) != reads.end()) return true;
    }
    return false;
  }

  int32_t Gradient(BufferIndex b) {
    return Allocate({.bytes = Bytes(b),
                     .category = facts_.buffers[b].is_output
                                     ? Category::kLoss
                                     : Category::kTemporary,
                     .buffer = b,
                     .is_gradient = true});
  }

  // In float32 whatever the precision, as losses are.
  void LossOf(BufferIndex output) {
    BufferFact float32 = facts_.buffers[output];
    float32.bits = 32;
    const int64_t wide = BufferBytes(float32, options_);
    const bool narrow = Bytes(output) < wide;
    const auto allocate = [&](int64_t bytes, absl::string_view name) {
      return Allocate({.bytes = bytes,
                       .category = Category::kLoss,
                       .name = std::string(name)});
    };
    const int32_t copy = narrow ? allocate(wide, "outputs in float32") : kNone;
    const bool cross = loss_ == LossKind::kCrossEntropy;
    const int32_t kept =
        allocate(wide, cross ? "log-probabilities" : "targets");
    Mark(Phase::kLoss, kNone);
    Free(copy);
    int32_t gradient = allocate(wide, "gradient of the loss");
    if (cross) {
      const int32_t next = allocate(wide, "gradient of the log-probabilities");
      Mark(Phase::kLoss, kNone);
      Free(gradient);
      gradient = next;
      Free(kept);
    } else {
      Mark(Phase::kLoss, kNone);
      Free(kept);
    }
    if (narrow) {
      gradient_of_[output] = Gradient(output);
      Mark(Phase::kLoss, kNone);
      Free(gradient);
    } else {
      gradient_of_[output] = gradient;
    }
  }

  void Backward(UnitIndex u) {
    const int32_t segment = segment_of_[u];
    if (segment != kNone && (u + 1 == end_ || segment_of_[u + 1] != segment)) {
      Recompute(segment, u + 1);
    }
    const UnitFact& unit = facts_.units[u];
    std::vector<int32_t> temporaries;
    int32_t result = kNone;  // the gradient of the first result that has one
    int64_t result_bytes = 0;
    for (BufferIndex b : unit.writes) {
      if (gradient_of_[b] == kNone || result != kNone) continue;
      result = gradient_of_[b];
      result_bytes = trace_.blocks[result].bytes;
    }
    if (result != kNone) {
      for (BufferIndex b : unit.gradients) {
        if (!written_here_[b] && facts_.buffers[b].is_input) continue;
        GiveGradient(b, unit.passes_gradient && Bytes(b) == result_bytes,
                     result, &temporaries);
      }
      for (ParameterIndex p : unit.parameters) {
        GiveParameterGradient(p, &temporaries);
      }
    }
    Mark(Phase::kBackward, u);
    for (int32_t block : temporaries) Free(block);
    for (BufferIndex b : unit.writes) {
      Free(gradient_of_[b]);
      gradient_of_[b] = kNone;
    }
    Release(u, segment);
  }

  void GiveGradient(BufferIndex b, bool passed_on, int32_t result,
                    std::vector<int32_t>* temporaries) {
    if (gradient_of_[b] == kNone) {
      if (passed_on) {
        ++references_[result];
        gradient_of_[b] = result;
      } else {
        gradient_of_[b] = Gradient(b);
      }
      return;
    }
    // Added to what is there: in place, unless somebody else holds that too.
    if (!passed_on) temporaries->push_back(Gradient(b));
    if (references_[gradient_of_[b]] > 1) {
      const int32_t sum = Gradient(b);
      Free(gradient_of_[b]);
      gradient_of_[b] = sum;
    }
  }

  void GiveParameterGradient(ParameterIndex p,
                             std::vector<int32_t>* temporaries) {
    if (!options_.frozen.empty() && options_.frozen[p]) return;
    const ParameterFact& parameter = facts_.parameters[p];
    int64_t bytes = CheckedMul(parameter.elements, options_.gradient_bytes)
                        .value_or(INT64_MAX);
    if (parameter.tensor_split)
      bytes = CeilDiv(bytes, options_.tensor_parallel);
    const bool there =
        options_.gradients_persist || parameter_gradient_[p] != kNone;
    const int32_t block = Allocate(
        {.bytes = bytes,
         .category = there ? Category::kTemporary : Category::kGradients,
         .name = parameter.name});
    if (there) {
      temporaries->push_back(block);
    } else {
      parameter_gradient_[p] = block;
    }
  }

  void Release(UnitIndex u, int32_t segment) {
    const UnitFact& unit = facts_.units[u];
    if (segment != kNone) {
      for (BufferIndex b : unit.saves) {
        if (replay_of_[b] == kNone || replay_release_[b] != u) continue;
        Free(replay_of_[b]);
        replay_of_[b] = kNone;
      }
    }
    const auto done = [&](BufferIndex b) {
      if (release_[b] == u) FreeBuffer(b);
    };
    for (BufferIndex b : unit.saves) done(b);
    if (segment == kNone) return;
    const Checkpoint& checkpoint = options_.checkpoints[segment];
    if (u != std::max(checkpoint.begin, begin_)) return;
    for (UnitIndex v = u; v < std::min(checkpoint.end, end_); ++v) {
      for (BufferIndex b : facts_.units[v].reads) done(b);
    }
  }

  // Forward of [begin, end) of the segment once more.
  void Recompute(int32_t segment, UnitIndex end) {
    const UnitIndex first =
        std::max(options_.checkpoints[segment].begin, begin_);
    if (replay_release_.empty()) {
      replay_release_.assign(facts_.buffers.size(), kNone);
    }
    std::vector<UnitIndex> last_read(facts_.buffers.size(), kNone);
    for (UnitIndex u = first; u < end; ++u) {
      for (BufferIndex b : facts_.units[u].writes) replay_release_[b] = kNone;
      for (BufferIndex b : facts_.units[u].reads) last_read[b] = u;
    }
    for (UnitIndex u = end - 1; u >= first; --u) {
      for (BufferIndex b : facts_.units[u].saves) replay_release_[b] = u;
    }
    for (UnitIndex u = first; u < end; ++u) {
      const UnitFact& unit = facts_.units[u];
      for (BufferIndex b : unit.writes) {
        const bool kept = replay_release_[b] != kNone;
        if (!kept && last_read[b] == kNone) continue;
        replay_of_[b] = Allocate(
            {.bytes = Bytes(b),
             .category = kept ? Category::kSaved : Category::kTemporary,
             .buffer = b});
      }
      Mark(Phase::kBackward, u, /*recompute=*/true);
      for (BufferIndex b : unit.reads) {
        if (replay_of_[b] == kNone || last_read[b] != u ||
            replay_release_[b] != kNone) {
          continue;
        }
        Free(replay_of_[b]);
        replay_of_[b] = kNone;
      }
    }
  }

  const ModelFacts& facts_;
  const TraceOptions& options_;
  UnitIndex begin_;
  UnitIndex end_;
  bool is_last_;
  LossKind loss_;
  bool loss_done_ = false;
  StepTrace trace_;
  std::vector<int32_t> references_;  // by block
  std::vector<int32_t> segment_of_;  // by unit
  std::vector<UnitIndex> last_use_;  // by buffer: in forward
  std::vector<UnitIndex> release_;   // by buffer: whose backward frees it
  std::vector<bool> written_here_;   // by buffer: in this stage
  std::vector<int32_t> block_of_;    // by buffer
  std::vector<int32_t> replay_of_;   // by buffer: computed again
  std::vector<UnitIndex> replay_release_;
  std::vector<int32_t> gradient_of_;         // by buffer
  std::vector<int32_t> parameter_gradient_;  // by parameter
};

}  // namespace

absl::string_view Name(Category category) {
  constexpr std::array<absl::string_view, kNumCategories> kNames = {
      "parameters",           "constants",   "master weights",
      "optimizer state",      "gradients",   "inputs",
      "saved activations",    "temporaries", "outputs and loss",
      "communication buffers"};
  return kNames[static_cast<size_t>(category)];
}

absl::string_view Name(Phase phase) {
  constexpr std::array<absl::string_view, 5> kNames = {
      "start", "forward", "loss", "backward", "optimizer step"};
  return kNames[static_cast<size_t>(phase)];
}

int64_t BufferBytes(const BufferFact& buffer, const TraceOptions& options) {
  const int64_t bytes = buffer.Bytes(options.batch, options.activation_bytes);
  const bool divided =
      buffer.tensor_split || (options.sequence_parallel && !buffer.is_input &&
                              buffer.elements.per_sample > 0);
  return divided ? CeilDiv(bytes, options.tensor_parallel) : bytes;
}

StepTrace TraceStep(const ModelFacts& facts, const TraceOptions& options) {
  return Tracer(facts, options).Run();
}

TraceProfile Replay(const StepTrace& trace) {
  TraceProfile profile;
  std::array<int64_t, kNumCategories> live{};
  int64_t total = 0;
  size_t event = 0;
  int32_t peak_event = 0;
  for (size_t p = 0; p < trace.points.size(); ++p) {
    int64_t highest = total;
    for (; event < static_cast<size_t>(trace.points[p].end_event); ++event) {
      const TraceBlock& block = trace.blocks[trace.events[event].block];
      auto& category = live[static_cast<size_t>(block.category)];
      if (!trace.events[event].allocate) {
        total -= block.bytes;
        category -= block.bytes;
        continue;
      }
      total = SaturatingAdd(total, block.bytes);
      category = SaturatingAdd(category, block.bytes);
      highest = std::max(highest, total);
      if (total > profile.peak_bytes) {
        profile.peak_bytes = total;
        profile.peak_point = static_cast<int32_t>(p);
        profile.at_peak = live;
        peak_event = static_cast<int32_t>(event);
      }
    }
    profile.live_bytes.push_back(highest);
  }
  std::vector<bool> is_live(trace.blocks.size());
  for (int32_t e = 0; e <= peak_event && !trace.events.empty(); ++e) {
    is_live[trace.events[e].block] = trace.events[e].allocate;
  }
  for (size_t b = 0; b < is_live.size(); ++b) {
    if (is_live[b]) profile.peak_blocks.push_back(static_cast<int32_t>(b));
  }
  std::stable_sort(profile.peak_blocks.begin(), profile.peak_blocks.end(),
                   [&](int32_t a, int32_t b) {
                     return trace.blocks[a].bytes > trace.blocks[b].bytes;
                   });
  return profile;
}

int64_t SavedBytes(const ModelFacts& facts, const TraceOptions& options) {
  return Tracer(facts, options).Saved();
}

std::vector<int64_t> SavedByUnit(const ModelFacts& facts,
                                 const TraceOptions& options) {
  return Tracer(facts, options).SavedOfUnits();
}

}  // namespace onnx_memopt::estimate
