// The exact search: can these buffers be placed below a given height?
//
// The placed buffers make a skyline over time, one floor per section, below
// which nothing will be placed any more:
//
//   offset |      ____                 floors: the upper edge
//          |   __|    |        ____    valleys: b..c and f, lower than what is
//          |__|  |    |__ ____|    |            beside them
//           a b    c   d   e    f      sections
//
// In a plan pushed down as far as it goes, the lowest buffer over a section of
// a valley either lies on the floor, and then wholly inside the valley, or
// there is a hole below it, and then it rests on something beside the section.
// So a node of the search picks a section and tries each buffer that fits, and
// last the hole, which raises the floor. Every plan is met once.
//
//   OffsetDfs dfs(problem, rules);
//   if (dfs.Run(capacity, style, limits) == Verdict::kPlaced) dfs.offsets();
//
// kImpossible is a proof; with nogoods it rests on 128-bit hashes of states
// not colliding.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_DFS_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_DFS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "onnx_memopt/plan/offsets_search.h"
#include "plan/offsets_sections.h"

namespace onnx_memopt::plan {

enum class Verdict { kPlaced, kImpossible, kLimit };

// Which section a node decides: the one with the fewest choices, with the
// least room left, or the lowest.
enum class DfsSection { kFewest, kTightest, kLowest };

// Which buffer is tried first: the largest, the one over the most sections
// (kWidth), the largest product of the two (kArea) or of size and sections
// squared (kWidthFirst), the one over the fullest section (kContention), the
// longest in steps (kLife), or the largest product of steps and size.
enum class DfsOrder {
  kSize,
  kWidth,
  kArea,
  kWidthFirst,
  kContention,
  kLife,
  kLifeArea,
};

struct DfsStyle {
  DfsSection section = DfsSection::kFewest;
  DfsOrder order = DfsOrder::kSize;
  uint64_t seed = 0;   // 0: no randomness
  double noise = 0.5;  // keys are multiplied by 1 - noise .. 1 + noise
};

struct DfsLimits {
  int64_t states = 0;
  std::chrono::steady_clock::time_point deadline =
      std::chrono::steady_clock::time_point::max();
  // Set by others: give up once more states than that were visited.
  const std::atomic<int64_t>* stop_after = nullptr;
};

class OffsetDfs {
 public:
  // Keeps a reference to the problem.
  OffsetDfs(const SectionProblem& problem, const OffsetRules& rules);

  // May be called again: what was refuted before is remembered.
  Verdict Run(int64_t capacity, const DfsStyle& style, const DfsLimits& limits);

  // After kPlaced, in units, parallel to the problem's buffers.
  const std::vector<int64_t>& offsets() const { return offset_; }
  int64_t Height() const;
  // Visited by the last Run.
  int64_t states() const { return states_; }

 private:
  // where == nullptr: buffer `old` was placed.
  struct Change {
    int64_t* where;
    int64_t old;
  };
  // Impossible in one capacity is impossible in any smaller one.
  struct Nogood {
    uint64_t low = 0;
    uint64_t high = 0;
    int64_t capacity = -1;
  };
  // A range of sections that no unplaced buffer leaves, and a hash of all that
  // decides whether it can be filled.
  struct Part {
    int32_t first = 0;
    int32_t past = 0;
    uint64_t low = 0;
    uint64_t high = 0;
  };
  // Sections [first, past) with one floor, lower than both neighbours.
  struct Valley {
    int32_t first = 0;
    int32_t past = 0;
    int64_t wall = 0;  // the lower of the two
  };
  struct Choice {
    int32_t section = -1;
    int64_t hole_end = -1;  // -1: no hole can be afforded
  };

  const uint64_t* Cover(int32_t s) const {
    return &cover_[static_cast<size_t>(s) * words_];
  }
  void Set(int64_t& where, int64_t value);
  void Undo(size_t mark);
  void TakeOut(int32_t i);
  void PutBack(int32_t i);
  void Wake(int32_t s);
  bool RaiseFloor(int32_t s, int64_t to);
  bool RaiseBuffer(int32_t i, int64_t to);
  bool Propagate();
  bool Place(int32_t i, int64_t at);
  bool MakeHole(int32_t s, int64_t end);
  bool OutOfTime();
  void HashPart(Part& part) const;
  bool Refuted(const Part& part) const;
  void FindValleys(const Part& part, std::vector<Valley>& valleys);
  void FindGrounded(const Part& part, const std::vector<Valley>& valleys);
  int64_t HoleEnd(int32_t s, const Valley& valley) const;
  Choice Choose(const Part& part);
  void ListCandidates(int32_t s, std::vector<int32_t>& candidates) const;
  Verdict Search(int32_t first, int32_t past);
  Verdict SearchPart(const Part& part);
  Verdict Branch(const Part& part);
  void Rank();

  const SectionProblem& problem_;
  const OffsetRules rules_;
  const int32_t num_buffers_;
  const int32_t num_sections_;
  const int32_t words_;          // of a set of buffers
  std::vector<uint64_t> cover_;  // per section, the buffers over it

  int64_t capacity_ = 0;
  DfsStyle style_;
  DfsLimits limits_;
  int64_t states_ = 0;
  int32_t depth_ = 0;
  std::vector<double> rank_;  // per buffer: the larger, the earlier

  std::vector<uint64_t> unplaced_;
  std::vector<int64_t> floor_;     // per section
  std::vector<int64_t> top_;       // per section: of what is placed
  std::vector<int64_t> total_;     // per section: of what is not
  std::vector<int32_t> crossing_;  // per section: unplaced from before it
  std::vector<int64_t> lowest_;    // per buffer: the highest floor below it
  std::vector<int64_t> offset_;
  std::vector<int32_t> queue_;  // sections whose floor may rise
  std::vector<char> queued_;
  std::vector<uint64_t> grounded_;     // see FindGrounded
  std::vector<char> in_valley_;        // per section, 0 outside of FindGrounded
  std::vector<uint64_t> buffer_hash_;  // two for each
  std::vector<Change> trail_;
  std::vector<Nogood> nogoods_;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_DFS_H_
