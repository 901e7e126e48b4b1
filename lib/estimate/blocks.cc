#include "onnx_memopt/estimate/blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

// Only an activation with a gradient counts: masks and positions are there for
// every layer.
bool Crosses(const BufferFact& buffer) {
  return buffer.has_gradient && buffer.elements.per_sample > 0;
}

bool HasGradient(const ModelFacts& facts, UnitIndex u) {
  const BufferList& writes = facts.units[u].writes;
  return std::any_of(writes.begin(), writes.end(),
                     [&](BufferIndex b) { return Crosses(facts.buffers[b]); });
}

// First and last unit of each activation with a gradient; -1: none.
struct Lives {
  std::vector<UnitIndex> first;
  std::vector<UnitIndex> last;
};

Lives FindLives(const ModelFacts& facts) {
  const auto units = static_cast<UnitIndex>(facts.units.size());
  Lives lives{.first = std::vector<UnitIndex>(facts.buffers.size(), -1),
              .last = std::vector<UnitIndex>(facts.buffers.size(), -1)};
  for (UnitIndex u = 0; u < units; ++u) {
    for (BufferIndex b : facts.units[u].reads) lives.last[b] = u;
    for (BufferIndex b : facts.units[u].writes) lives.first[b] = u;
  }
  for (BufferIndex b : facts.outputs) lives.last[b] = units;
  for (size_t b = 0; b < lives.last.size(); ++b) {
    if (!Crosses(facts.buffers[b]) || lives.first[b] < 0 ||
        lives.last[b] <= lives.first[b]) {
      lives.first[b] = lives.last[b] = -1;
    }
  }
  return lives;
}

struct Cuts {
  std::vector<UnitIndex> at;
  std::vector<int64_t> bytes;
  UnitIndex largest_piece = 0;
};

// What lives for more than `longest` units is a skip.
Cuts FindCuts(const ModelFacts& facts, const Lives& lives, UnitIndex longest) {
  const auto units = static_cast<UnitIndex>(facts.units.size());
  // By unit: what begins to cross after it, and what ends to.
  std::vector<int64_t> bytes(units + 1);
  std::vector<int32_t> count(units + 1);
  for (size_t b = 0; b < lives.first.size(); ++b) {
    const UnitIndex first = lives.first[b];
    const UnitIndex last = lives.last[b];
    if (first < 0) continue;
    // Sums of a million such sizes do not overflow.
    const int64_t size =
        std::min(facts.buffers[b].Bytes(1, 4), kMostBlockBytes);
    bytes[first] += size;
    bytes[last] -= size;
    if (last - first > longest) continue;
    ++count[first];
    --count[last];
  }
  Cuts cuts;
  int64_t crossing_bytes = 0;
  int32_t crossing = 0;
  UnitIndex begin = 0;
  for (UnitIndex u = 0; u + 1 < units; ++u) {
    crossing_bytes += bytes[u];
    crossing += count[u];
    // Not twice between the same two layers, where only shapes are computed.
    if (crossing != 1 || !HasGradient(facts, u)) continue;
    cuts.at.push_back(u + 1);
    cuts.bytes.push_back(crossing_bytes);
    cuts.largest_piece = std::max(cuts.largest_piece, u + 1 - begin);
    begin = u + 1;
  }
  cuts.largest_piece = std::max(cuts.largest_piece, units - begin);
  return cuts;
}

void ChooseCuts(const ModelFacts& facts, ModelBlocks* blocks) {
  constexpr UnitIndex kShortestSkip = 8;
  const auto units = static_cast<UnitIndex>(facts.units.size());
  const Lives lives = FindLives(facts);
  Cuts best = FindCuts(facts, lives, units + 1);
  if (best.largest_piece > std::max(units / 4, kShortestSkip)) {
    for (UnitIndex longest = units / 4; longest >= kShortestSkip;
         longest /= 2) {
      Cuts cuts = FindCuts(facts, lives, longest);
      // Each step counts more as skips: only for much smaller pieces.
      if (cuts.largest_piece > best.largest_piece / 2) continue;
      best = std::move(cuts);
      blocks->skips = true;
    }
  }
  blocks->cuts = std::move(best.at);
  blocks->cut_bytes = std::move(best.bytes);
}

// The ops of a piece; shape arithmetic may be written out differently in each.
std::string Signature(const ModelFacts& facts, UnitIndex begin, UnitIndex end) {
  std::string text;
  for (UnitIndex u = begin; u < end; ++u) {
    if (HasGradient(facts, u)) absl::StrAppend(&text, facts.units[u].op, ";");
  }
  return text;
}

}  // namespace

ModelBlocks FindBlocks(const ModelFacts& facts) {
  ModelBlocks result;
  ChooseCuts(facts, &result);
  std::vector<UnitIndex> edges = {0};
  edges.insert(edges.end(), result.cuts.begin(), result.cuts.end());
  edges.push_back(static_cast<UnitIndex>(facts.units.size()));
  std::vector<std::string> pieces;
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    pieces.push_back(Signature(facts, edges[i], edges[i + 1]));
  }
  // The period, in pieces, that covers the most units; the shortest of them.
  size_t period = 0;
  size_t period_begin = 0;
  size_t period_end = 0;
  int64_t covered = 0;
  constexpr size_t kLongestPeriod = 24;
  for (size_t p = 1; p <= std::min(kLongestPeriod, pieces.size() / 2); ++p) {
    for (size_t i = 0; i + p < pieces.size();) {
      size_t j = i;
      while (j + p < pieces.size() && pieces[j] == pieces[j + p]) ++j;
      const size_t whole = (j - i + p) / p * p;
      if (whole >= 3 * p) {
        const int64_t units = edges[i + whole] - edges[i];
        if (units > covered) {
          covered = units;
          period = p;
          period_begin = i;
          period_end = i + whole;
        }
      }
      i = std::max(j, i + 1);
    }
  }
  const auto total = static_cast<int64_t>(facts.units.size());
  if (period > 0 && 2 * covered >= total) {
    result.repeated = true;
    // A block that opens with what carries on from the one before (a
    // normalisation) is cut where the period begins.
    for (size_t i = period_begin; i + period <= period_end; i += period) {
      result.blocks.push_back({.begin = edges[i], .end = edges[i + period]});
    }
    return result;
  }
  // No period: every piece of more than two units.
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    if (edges[i + 1] - edges[i] > 2) {
      result.blocks.push_back({.begin = edges[i], .end = edges[i + 1]});
    }
  }
  return result;
}

std::vector<Checkpoint> AttentionCores(const ModelFacts& facts) {
  std::vector<Checkpoint> cores;
  const auto units = static_cast<UnitIndex>(facts.units.size());
  for (UnitIndex u = 0; u < units; ++u) {
    if (!facts.units[u].in_attention || facts.units[u].op == "Attention")
      continue;
    // The core ends with the product after the Softmax. Copies of views may lie
    // between its units.
    bool softmax = false;
    UnitIndex end = u;
    for (UnitIndex v = u; v < units; ++v) {
      const UnitFact& unit = facts.units[v];
      if (!unit.in_attention) {
        if (unit.op != "contiguous copy") break;
        continue;
      }
      end = v + 1;
      softmax |= unit.op == "Softmax";
      if (softmax && unit.op == "MatMul") break;
    }
    cores.push_back({.begin = u, .end = end});
    u = end - 1;
  }
  return cores;
}

std::vector<Checkpoint> GroupBlocks(const std::vector<Checkpoint>& blocks,
                                    int64_t size) {
  std::vector<Checkpoint> groups;
  int64_t in_group = 0;
  for (const Checkpoint& block : blocks) {
    const bool joins =
        !groups.empty() && in_group < size && groups.back().end == block.begin;
    if (joins) {
      groups.back().end = block.end;
      ++in_group;
    } else {
      groups.push_back(block);
      in_group = 1;
    }
  }
  return groups;
}

int64_t FlopsOf(const ModelFacts& facts, UnitIndex begin, UnitIndex end,
                int64_t batch) {
  int64_t flops = 0;
  for (UnitIndex u = begin; u < end; ++u) {
    flops = SaturatingAdd(flops, facts.units[u].flops.At(batch));
  }
  return flops;
}

}  // namespace onnx_memopt::estimate
