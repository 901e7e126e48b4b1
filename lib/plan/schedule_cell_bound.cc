// A lower bound on a cell's peak. While unit u runs, every order has these
// buffers live: those that u or a unit after it reads, if they come from before
// the cell or from a unit before u; and those from a unit before u that outlive
// the cell. On top comes u's own hill, in the kindest case: all that can have
// run before u has.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plan/schedule_cell_problem.h"
#include "plan/schedule_model.h"

namespace onnx_memopt::plan {
namespace {

// Above this many units "before" and "after" take too long to find: then only
// what u itself reads counts.
constexpr int32_t kMaxClosure = 512;

}  // namespace

int64_t CellProblem::EndsBound() {
  // Some unit without predecessors is first, and what is live after the cell is
  // live during its last step.
  const std::vector<uint64_t> none(num_words(), 0);
  int64_t first = std::numeric_limits<int64_t>::max();
  for (int32_t unit = 0; unit < size(); ++unit) {
    if (!preds_[unit].empty()) continue;
    first = std::min(first, Evaluate(unit, none.data()).hill);
  }
  int64_t last = 0;
  for (const CellBuffer& buffer : buffers_) {
    if (buffer.survives) last += buffer.size_bytes;
    if (buffer.producer < 0) last -= buffer.size_bytes;
  }
  return std::max(first, last);
}

int64_t CellProblem::PeakBound() {
  const bool closure = size() <= kMaxClosure;
  const size_t words = num_words();
  // after[u]: u and the units that depend on it; before[u]: those it needs.
  std::vector<std::vector<uint64_t>> after;
  std::vector<std::vector<uint64_t>> before;
  if (closure) {
    after.assign(size(), std::vector<uint64_t>(words, 0));
    before = after;
    for (int32_t unit = 0; unit < size(); ++unit) {
      for (int32_t pred : preds_[unit]) {
        for (size_t w = 0; w < words; ++w) before[unit][w] |= before[pred][w];
        Insert(before[unit].data(), pred);
      }
    }
    for (int32_t unit = size() - 1; unit >= 0; --unit) {
      Insert(after[unit].data(), unit);
      for (int32_t succ : succs_[unit]) {
        for (size_t w = 0; w < words; ++w) after[unit][w] |= after[succ][w];
      }
    }
  }
  std::vector<int64_t> level(size(), 0);
  int64_t entering = 0;
  for (const CellBuffer& buffer : buffers_) {
    if (buffer.producer < 0) entering += buffer.size_bytes;
    if (!closure) {
      for (int32_t reader : buffer.readers) level[reader] += buffer.size_bytes;
      continue;
    }
    for (int32_t unit = 0; unit < size(); ++unit) {
      if (buffer.producer >= 0 && !Has(before[unit].data(), buffer.producer)) {
        continue;
      }
      const bool live = buffer.survives ||
                        std::any_of(buffer.readers.begin(),
                                    buffer.readers.end(), [&](int32_t reader) {
                                      return Has(after[unit].data(), reader);
                                    });
      if (live) level[unit] += buffer.size_bytes;
    }
  }
  int64_t bound = EndsBound();
  std::vector<uint64_t> done(words, ~uint64_t{0});
  for (int32_t unit = 0; unit < size(); ++unit) {
    if (closure) {
      for (size_t w = 0; w < words; ++w) done[w] = ~after[unit][w];
    }
    const Effect effect = Evaluate(unit, done.data());
    bound = std::max(bound, level[unit] - entering + effect.hill);
  }
  return bound;
}

}  // namespace onnx_memopt::plan
