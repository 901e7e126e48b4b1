#include "plan/recompute_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {
namespace {

class BlockFinder {
 public:
  BlockFinder(const RecomputeModel& model, absl::Span<const int32_t> order)
      : model_(model), order_(order), n_(model.n), step_(n_) {
    for (int32_t i = 0; i < n_; ++i) step_[order[i]] = i;
    turn_ = FindTurn();
  }

  std::vector<RecomputeBlock> Run(int32_t max_blocks) {
    FindCuts();
    AssignBackward();
    Thin(max_blocks);
    // What is joined may let a backward node belong elsewhere.
    AssignBackward();
    std::vector<RecomputeBlock> blocks(cuts_.size());
    int32_t begin = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (int32_t i = begin; i <= cuts_[b]; ++i) {
        blocks[b].forward.push_back(order_[i]);
      }
      begin = cuts_[b] + 1;
    }
    for (int32_t i = turn_ + 1; i < n_; ++i) {
      blocks[block_of_[i]].backward.push_back(order_[i]);
    }
    MeasureBackward(blocks);
    for (size_t b = 0; b < blocks.size(); ++b) {
      MeasureForward(blocks[b], b + 1 == blocks.size());
    }
    return blocks;
  }

 private:
  bool IsForward(int32_t v) const { return step_[v] <= turn_; }

  // The first step with the most memory live.
  int32_t FindTurn() const {
    std::vector<int64_t> ends(n_, 0);
    for (int32_t v = 0; v < n_; ++v) {
      int32_t last = step_[v];
      for (int32_t w : model_.users[v]) last = std::max(last, step_[w]);
      ends[last] += model_.memory[v];
    }
    int32_t turn = 0;
    int64_t live = 0;
    int64_t most = -1;
    for (int32_t i = 0; i < n_; ++i) {
      live += model_.memory[order_[i]];
      if (live > most) {
        most = live;
        turn = i;
      }
      live -= ends[i];
    }
    return turn;
  }

  // Steps after which a single value leads on in the forward part.
  void FindCuts() {
    int32_t reach = 0;  // the last forward step that reads what was made before
    for (int32_t i = 0; i < turn_; ++i) {
      if (reach <= i) cuts_.push_back(i);
      for (int32_t w : model_.users[order_[i]]) {
        if (IsForward(w)) reach = std::max(reach, step_[w]);
      }
    }
    cuts_.push_back(turn_);
  }

  // To which block each backward node belongs, joining blocks where its reads
  // span several.
  void AssignBackward() {
    std::vector<int32_t> joined(n_ + 1, 0);  // cuts inside are no cuts
    const auto num = static_cast<int32_t>(cuts_.size());
    std::vector<int32_t> block(turn_ + 1);
    for (int32_t i = 0, b = 0; i <= turn_; ++i) {
      block[i] = b;
      if (i == cuts_[b]) ++b;
    }
    block_of_.assign(n_, 0);
    int32_t later = 0;  // the block of the nodes that follow
    for (int32_t i = n_ - 1; i > turn_; --i) {
      int32_t low = num;
      int32_t high = later;
      for (int32_t u : model_.inputs[order_[i]]) {
        if (!IsForward(u)) continue;
        const int32_t b = block[step_[u]];
        // A value that leads on is at hand in the next block too.
        const int32_t next =
            step_[u] == cuts_[b] ? std::min(b + 1, num - 1) : b;
        low = std::min(low, next);
        high = std::max(high, b);
      }
      // Alone, it is read in the block that it leads into.
      if (low < num) high = std::max(high, low);
      for (int32_t b = low; b < high; ++b) joined[b] = 1;
      block_of_[i] = later = high;
    }
    std::vector<int32_t> kept;
    std::vector<int32_t> renamed(num);
    for (int32_t b = 0; b < num; ++b) {
      renamed[b] = static_cast<int32_t>(kept.size());
      if (joined[b] == 0) kept.push_back(cuts_[b]);
    }
    cuts_ = std::move(kept);
    for (int32_t i = turn_ + 1; i < n_; ++i) {
      block_of_[i] = renamed[block_of_[i]];
    }
  }

  // Keeps at most so many cuts: of each stretch the one with the least memory.
  void Thin(int32_t max_blocks) {
    const auto num = static_cast<int64_t>(cuts_.size());
    if (num <= max_blocks) return;
    std::vector<int32_t> kept;
    const int64_t stretches = std::max(0, max_blocks - 1);
    for (int64_t s = 0; s < stretches; ++s) {
      int64_t best = (num - 1) * s / stretches;
      for (int64_t c = best; c < (num - 1) * (s + 1) / stretches; ++c) {
        if (OutMemory(c) <= OutMemory(best)) best = c;
      }
      if (kept.empty() || kept.back() != cuts_[best]) {
        kept.push_back(cuts_[best]);
      }
    }
    kept.push_back(cuts_.back());
    cuts_ = std::move(kept);
  }
  int64_t OutMemory(int64_t cut) const {
    return model_.memory[order_[cuts_[cut]]];
  }

  // Liveness of the backward nodes, with the forward values of their block that
  // they still read.
  void MeasureBackward(std::vector<RecomputeBlock>& blocks) {
    saved_.assign(n_, false);
    std::vector<int32_t> last(n_, -1);
    std::vector<int32_t> home(n_, -1);  // of forward nodes: their block
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (int32_t v : blocks[b].forward) home[v] = static_cast<int32_t>(b);
    }
    for (int32_t i = turn_ + 1; i < n_; ++i) {
      last[order_[i]] = i;
      for (int32_t u : model_.inputs[order_[i]]) {
        if (IsForward(u) && home[u] != block_of_[i]) continue;
        last[u] = i;
        if (IsForward(u)) saved_[u] = true;
      }
    }
    int64_t gradients = 0;
    for (size_t b = blocks.size(); b-- > 0;) {
      RecomputeBlock& block = blocks[b];
      block.gradients = gradients;
      int64_t held = 0;
      for (int32_t v : block.forward) {
        if (saved_[v]) held += model_.memory[v];
      }
      for (int32_t v : block.backward) {
        gradients += model_.memory[v];
        block.backward_peak = std::max(block.backward_peak, held + gradients);
        if (last[v] == step_[v]) gradients -= model_.memory[v];
        for (int32_t u : model_.inputs[v]) {
          if (last[u] != step_[v]) continue;
          (IsForward(u) ? held : gradients) -= model_.memory[u];
        }
      }
    }
  }

  void MeasureForward(RecomputeBlock& block, bool is_last) {
    const int32_t out = block.forward.back();
    block.out_memory = model_.memory[out];
    std::vector<int32_t>& tail = block.tail;
    std::vector<int32_t> stack;
    for (int32_t v : block.forward) {
      block.cost += model_.cost[v];
      if (v != out && saved_[v]) block.saved_memory += model_.memory[v];
      if (saved_[v]) stack.push_back(v);
    }
    const int32_t first = step_[block.forward.front()];
    if (is_last) {
      tail = block.forward;
    } else {
      std::vector<bool> seen(block.forward.size(), false);
      for (int32_t v : stack) seen[step_[v] - first] = true;
      while (!stack.empty()) {
        const int32_t v = stack.back();
        stack.pop_back();
        for (int32_t u : model_.inputs[v]) {
          if (step_[u] < first || seen[step_[u] - first]) continue;
          seen[step_[u] - first] = true;
          stack.push_back(u);
        }
      }
      for (int32_t v : block.forward) {
        if (seen[step_[v] - first]) tail.push_back(v);
      }
    }
    for (int32_t v : tail) block.tail_cost += model_.cost[v];
    const int32_t in = first == 0 ? -1 : order_[first - 1];
    block.sweep_peak = Peak(block.forward, out, /*saving=*/false, -1);
    block.sweep_in_peak = Peak(block.forward, out, /*saving=*/false, in);
    block.save_peak = Peak(block.forward, out, /*saving=*/true, -1);
    block.tail_peak = Peak(tail, -1, /*saving=*/true, -1);
  }

  // Of running `nodes`; `out`, if any, stays, and what is saved if `saving`.
  // `in`, if any, counts until it is read last.
  int64_t Peak(const std::vector<int32_t>& nodes, int32_t out, bool saving,
               int32_t in) {
    if (nodes.empty()) return 0;
    last_.resize(n_, -1);
    const auto stays = [&](int32_t v) {
      return v == out || (saving && saved_[v]);
    };
    for (int32_t v : nodes) {
      last_[v] = step_[v];
      for (int32_t u : model_.inputs[v]) last_[u] = step_[v];
    }
    const int32_t first = step_[nodes.front()];
    int64_t live = in < 0 ? 0 : model_.memory[in];
    int64_t peak = live;
    for (int32_t v : nodes) {
      live += model_.memory[v];
      peak = std::max(peak, live);
      if (last_[v] == step_[v] && !stays(v)) live -= model_.memory[v];
      for (int32_t u : model_.inputs[v]) {
        if (last_[u] != step_[v]) continue;
        if (u == in || (step_[u] >= first && !stays(u))) {
          live -= model_.memory[u];
        }
      }
    }
    return peak;
  }

  const RecomputeModel& model_;
  absl::Span<const int32_t> order_;
  int32_t n_;
  std::vector<int32_t> step_;  // by node
  int32_t turn_ = 0;
  std::vector<int32_t> cuts_;      // the last step of each block
  std::vector<int32_t> block_of_;  // by step, of backward nodes
  std::vector<bool> saved_;        // by node: read by its block's backward part
  std::vector<int32_t> last_;
};

}  // namespace

std::vector<RecomputeBlock> FindBlocks(const RecomputeModel& model,
                                       absl::Span<const int32_t> order,
                                       int32_t max_blocks) {
  if (model.n == 0) return {};
  return BlockFinder(model, order).Run(max_blocks);
}

}  // namespace onnx_memopt::plan
