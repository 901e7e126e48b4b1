#include "plan/offsets_dfs.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include "plan/offsets_random.h"

namespace onnx_memopt::plan {
namespace {

constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();
constexpr size_t kNogoodSlots = size_t{1} << 20;  // 24 bytes each
constexpr int32_t kMaxDepth = 10'000;  // a few hundred bytes of stack each

// Calls f with each member of the intersection, ascending, until it says false.
template <typename F>
void ForEach(const uint64_t* a, const uint64_t* b, int32_t words, F f) {
  for (int32_t w = 0; w < words; ++w) {
    for (uint64_t bits = a[w] & b[w]; bits != 0; bits &= bits - 1) {
      if (!f(w * 64 + __builtin_ctzll(bits))) return;
    }
  }
}

}  // namespace

OffsetDfs::OffsetDfs(const SectionProblem& problem, const OffsetRules& rules)
    : problem_(problem),
      rules_(rules),
      num_buffers_(static_cast<int32_t>(problem.buffers.size())),
      num_sections_(problem.num_sections),
      words_((num_buffers_ + 63) / 64),
      cover_(static_cast<size_t>(num_sections_) * words_, 0),
      grounded_(words_, 0),
      in_valley_(num_sections_, 0) {
  for (int32_t i = 0; i < num_buffers_; ++i) {
    buffer_hash_.push_back(MixBits(~static_cast<uint64_t>(i)));
    buffer_hash_.push_back(MixBits(buffer_hash_.back()));
    const SectionBuffer& buffer = problem.buffers[i];
    for (int32_t s = buffer.first; s < buffer.past; ++s) {
      cover_[static_cast<size_t>(s) * words_ + i / 64] |= uint64_t{1}
                                                          << (i % 64);
    }
  }
}

int64_t OffsetDfs::Height() const {
  int64_t height = 0;
  for (int32_t i = 0; i < num_buffers_; ++i) {
    height = std::max(height, offset_[i] + problem_.buffers[i].size);
  }
  return height;
}

void OffsetDfs::Set(int64_t& where, int64_t value) {
  trail_.push_back({&where, where});
  where = value;
}

void OffsetDfs::Undo(size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    if (change.where == nullptr) {
      PutBack(static_cast<int32_t>(change.old));
    } else {
      *change.where = change.old;
    }
  }
}

void OffsetDfs::TakeOut(int32_t i) {
  const SectionBuffer& buffer = problem_.buffers[i];
  unplaced_[i / 64] &= ~(uint64_t{1} << (i % 64));
  for (int32_t s = buffer.first; s < buffer.past; ++s) total_[s] -= buffer.size;
  for (int32_t s = buffer.first + 1; s < buffer.past; ++s) --crossing_[s];
  trail_.push_back({nullptr, i});
}

void OffsetDfs::PutBack(int32_t i) {
  const SectionBuffer& buffer = problem_.buffers[i];
  unplaced_[i / 64] |= uint64_t{1} << (i % 64);
  for (int32_t s = buffer.first; s < buffer.past; ++s) total_[s] += buffer.size;
  for (int32_t s = buffer.first + 1; s < buffer.past; ++s) ++crossing_[s];
}

void OffsetDfs::Wake(int32_t s) {
  if (queued_[s] != 0) return;
  queued_[s] = 1;
  queue_.push_back(s);
}

bool OffsetDfs::RaiseFloor(int32_t s, int64_t to) {
  Set(floor_[s], to);
  if (total_[s] > capacity_ - to && total_[s] > 0) return false;
  bool fine = true;
  ForEach(Cover(s), unplaced_.data(), words_, [&](int32_t i) {
    if (lowest_[i] < to) fine = RaiseBuffer(i, to);
    return fine;
  });
  return fine;
}

bool OffsetDfs::RaiseBuffer(int32_t i, int64_t to) {
  const SectionBuffer& buffer = problem_.buffers[i];
  const int64_t old = lowest_[i];
  Set(lowest_[i], to);
  if (buffer.size > capacity_ - to) return false;
  // Only a buffer that could lie on the floor has kept it from rising.
  for (int32_t s = buffer.first; s < buffer.past; ++s) {
    if (floor_[s] == old) Wake(s);
  }
  return true;
}

// Raises the floors that no unplaced buffer can touch any more.
bool OffsetDfs::Propagate() {
  bool fine = true;
  while (!queue_.empty()) {
    const int32_t s = queue_.back();
    queue_.pop_back();
    queued_[s] = 0;
    if (!fine || !rules_.raise) continue;
    int64_t least = kInfinite;
    ForEach(Cover(s), unplaced_.data(), words_, [&](int32_t i) {
      least = std::min(least, lowest_[i]);
      return least > floor_[s];
    });
    if (least != kInfinite && least > floor_[s]) fine = RaiseFloor(s, least);
  }
  return fine;
}

bool OffsetDfs::Place(int32_t i, int64_t at) {
  const SectionBuffer& buffer = problem_.buffers[i];
  offset_[i] = at;
  TakeOut(i);
  bool fine = true;
  for (int32_t s = buffer.first; s < buffer.past && fine; ++s) {
    Set(top_[s], at + buffer.size);
    fine = RaiseFloor(s, at + buffer.size);
    Wake(s);
  }
  return Propagate() && fine;
}

bool OffsetDfs::MakeHole(int32_t s, int64_t end) {
  const bool fine = RaiseFloor(s, end);
  Wake(s);
  return Propagate() && fine;
}

bool OffsetDfs::OutOfTime() {
  ++states_;
  if (states_ > limits_.states) return true;
  if (states_ % 64 != 0) return false;
  if (limits_.stop_after != nullptr && states_ > limits_.stop_after->load()) {
    return true;
  }
  return std::chrono::steady_clock::now() >= limits_.deadline;
}

// The state of a part: its unplaced buffers, its floors, and which floors are
// the top of something, on which a buffer may rest.
void OffsetDfs::HashPart(Part& part) const {
  for (int32_t s = part.first; s < part.past; ++s) {
    const uint64_t held = floor_[s] == top_[s] ? 1 : 0;
    const uint64_t hash = MixBits(MixBits(static_cast<uint64_t>(floor_[s])) +
                                  2 * static_cast<uint64_t>(s) + held);
    part.low ^= hash;
    part.high += MixBits(hash ^ 0x5555555555555555ULL);
  }
  for (int32_t w = 0; w < words_; ++w) {
    for (uint64_t bits = unplaced_[w]; bits != 0; bits &= bits - 1) {
      const int32_t i = w * 64 + __builtin_ctzll(bits);
      const SectionBuffer& buffer = problem_.buffers[i];
      if (buffer.first < part.first || buffer.past > part.past) continue;
      part.low ^= buffer_hash_[2 * static_cast<size_t>(i)];
      part.high += buffer_hash_[2 * static_cast<size_t>(i) + 1];
    }
  }
}

bool OffsetDfs::Refuted(const Part& part) const {
  const Nogood& nogood = nogoods_[part.low % kNogoodSlots];
  return nogood.low == part.low && nogood.high == part.high &&
         nogood.capacity >= capacity_;
}

Verdict OffsetDfs::Search(int32_t first, int32_t past) {
  std::vector<Part> parts;
  for (int32_t s = first; s < past; ++s) {
    if (total_[s] == 0) continue;
    Part part{.first = s, .past = s + 1};
    while (part.past < past && total_[part.past] > 0 &&
           (!rules_.decompose || crossing_[part.past] > 0)) {
      ++part.past;
    }
    s = part.past - 1;
    if (rules_.nogoods) {
      HashPart(part);
      if (Refuted(part)) return Verdict::kImpossible;
    }
    parts.push_back(part);
  }
  // If one fails, all do: the small ones tell sooner.
  if (parts.size() > 1) {
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
      return std::make_pair(a.past - a.first, a.first) <
             std::make_pair(b.past - b.first, b.first);
    });
  }
  for (const Part& part : parts) {
    const Verdict verdict = SearchPart(part);
    if (verdict != Verdict::kPlaced) return verdict;
  }
  return Verdict::kPlaced;
}

// The least height above the floor of section s at which something over it
// can come to rest, if nothing lies on the floor. It rests on a wall, or on a
// buffer that lies in the valley but not over s, or on one that stands on a
// wall and reaches over the valley.
int64_t OffsetDfs::HoleEnd(int32_t s, const Valley& valley) const {
  const int64_t floor = floor_[s];
  const uint64_t* cover = Cover(s);
  int64_t end = valley.wall == kInfinite ? kInfinite : valley.wall + 1;
  for (int32_t w = 0; w < words_; ++w) {
    for (uint64_t bits = cover[w] & unplaced_[w] & ~grounded_[w]; bits != 0;
         bits &= bits - 1) {
      end = std::min(end, lowest_[w * 64 + __builtin_ctzll(bits)]);
    }
  }
  for (int32_t w = 0; w < words_; ++w) {
    // Small ones first: their numbers are lower.
    for (uint64_t bits = grounded_[w] & ~cover[w]; bits != 0;
         bits &= bits - 1) {
      const SectionBuffer& buffer =
          problem_.buffers[w * 64 + __builtin_ctzll(bits)];
      if (buffer.size >= end - floor) return end;
      if (buffer.first < valley.past && buffer.past > valley.first) {
        return floor + buffer.size;
      }
    }
  }
  return end;
}

// The buffers that can lie on the floor of their valley. One that reaches out
// of its valley is kept up by the wall.
void OffsetDfs::FindGrounded(const Part& part,
                             const std::vector<Valley>& valleys) {
  std::fill(grounded_.begin(), grounded_.end(), 0);
  for (const Valley& valley : valleys) {
    std::fill(in_valley_.begin() + valley.first,
              in_valley_.begin() + valley.past, 1);
  }
  for (int32_t w = 0; w < words_; ++w) {
    for (uint64_t bits = unplaced_[w]; bits != 0; bits &= bits - 1) {
      const int32_t i = w * 64 + __builtin_ctzll(bits);
      const int32_t first = problem_.buffers[i].first;
      if (first < part.first || first >= part.past) continue;
      if (in_valley_[first] != 0 && lowest_[i] == floor_[first]) {
        grounded_[w] |= uint64_t{1} << (i % 64);
      }
    }
  }
  for (const Valley& valley : valleys) {
    std::fill(in_valley_.begin() + valley.first,
              in_valley_.begin() + valley.past, 0);
  }
}

void OffsetDfs::FindValleys(const Part& part, std::vector<Valley>& valleys) {
  int32_t past = 0;
  for (int32_t first = part.first; first < part.past; first = past) {
    const int64_t floor = floor_[first];
    past = first + 1;
    while (past < part.past && floor_[past] == floor) ++past;
    const int64_t left = first > part.first ? floor_[first - 1] : kInfinite;
    const int64_t right = past < part.past ? floor_[past] : kInfinite;
    if (left < floor || right < floor) continue;
    valleys.push_back({first, past, std::min(left, right)});
  }
}

OffsetDfs::Choice OffsetDfs::Choose(const Part& part) {
  using Score = std::tuple<int64_t, int64_t, int64_t>;
  std::vector<Valley> valleys;
  FindValleys(part, valleys);
  FindGrounded(part, valleys);
  const bool lowest_first =
      !rules_.fail_first || style_.section == DfsSection::kLowest;
  Choice choice;
  Score best{kInfinite, kInfinite, kInfinite};
  for (const Valley& valley : valleys) {
    const int64_t floor = floor_[valley.first];
    if (lowest_first && floor > std::get<0>(best)) continue;
    for (int32_t s = valley.first; s < valley.past; ++s) {
      const uint64_t* cover = Cover(s);
      int64_t options = 0;
      for (int32_t w = 0; w < words_; ++w) {
        options += __builtin_popcountll(cover[w] & grounded_[w]);
      }
      // A hole would only make it worse.
      if (!lowest_first && options > std::get<0>(best)) continue;
      const int64_t room = capacity_ - floor - total_[s];
      const int64_t hole_end = room > 0 ? HoleEnd(s, valley) : kInfinite;
      const bool hole = hole_end != kInfinite && hole_end - floor <= room;
      if (hole) ++options;
      Score score;
      if (!rules_.fail_first) {
        score = {floor, s, 0};
      } else if (style_.section == DfsSection::kFewest) {
        score = {options, floor, room};
      } else if (style_.section == DfsSection::kTightest) {
        score = {options, room, floor};
      } else {
        score = {floor, options, room};
      }
      if (score < best) {
        best = score;
        choice = {.section = s, .hole_end = hole ? hole_end : -1};
      }
    }
  }
  return choice;
}

void OffsetDfs::ListCandidates(int32_t s,
                               std::vector<int32_t>& candidates) const {
  const int64_t floor = floor_[s];
  ForEach(Cover(s), unplaced_.data(), words_, [&](int32_t i) {
    if (lowest_[i] != floor) return true;
    const SectionBuffer& buffer = problem_.buffers[i];
    // Of equal ones, which are neighbours, the first stands for all.
    if (!candidates.empty()) {
      const SectionBuffer& last = problem_.buffers[candidates.back()];
      if (last.size == buffer.size && last.first == buffer.first &&
          last.past == buffer.past) {
        return true;
      }
    }
    // Over holes only, it could be pushed down: such plans are met elsewhere.
    if (rules_.support && floor > 0 &&
        std::find(top_.begin() + buffer.first, top_.begin() + buffer.past,
                  floor) == top_.begin() + buffer.past) {
      return true;
    }
    candidates.push_back(i);
    return true;
  });
  std::sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
    return rank_[a] != rank_[b] ? rank_[a] > rank_[b] : a < b;
  });
}

Verdict OffsetDfs::SearchPart(const Part& part) {
  if (OutOfTime() || depth_ == kMaxDepth) return Verdict::kLimit;
  ++depth_;
  const Verdict verdict = Branch(part);
  --depth_;
  return verdict;
}

Verdict OffsetDfs::Branch(const Part& part) {
  const Choice choice = Choose(part);
  std::vector<int32_t> candidates;
  ListCandidates(choice.section, candidates);
  const int64_t floor = floor_[choice.section];
  const size_t mark = trail_.size();
  for (int32_t i : candidates) {
    Verdict verdict = Verdict::kImpossible;
    if (Place(i, floor)) verdict = Search(part.first, part.past);
    if (verdict == Verdict::kPlaced) return verdict;
    Undo(mark);
    if (verdict == Verdict::kLimit) return verdict;
  }
  if (choice.hole_end >= 0) {
    Verdict verdict = Verdict::kImpossible;
    if (MakeHole(choice.section, choice.hole_end)) {
      verdict = Search(part.first, part.past);
    }
    if (verdict == Verdict::kPlaced) return verdict;
    Undo(mark);
    if (verdict == Verdict::kLimit) return verdict;
  }
  if (rules_.nogoods) {
    nogoods_[part.low % kNogoodSlots] = {part.low, part.high, capacity_};
  }
  return Verdict::kImpossible;
}

void OffsetDfs::Rank() {
  rank_.resize(num_buffers_);
  for (int32_t i = 0; i < num_buffers_; ++i) {
    const SectionBuffer& buffer = problem_.buffers[i];
    const auto size = static_cast<double>(buffer.size);
    const auto width = static_cast<double>(buffer.past - buffer.first);
    double key = size;
    switch (style_.order) {
      case DfsOrder::kSize:
        break;
      case DfsOrder::kWidth:
        key = width;
        break;
      case DfsOrder::kArea:
        key = width * size;
        break;
      case DfsOrder::kWidthFirst:
        key = width * width * size;
        break;
      case DfsOrder::kLife:
        key = static_cast<double>(buffer.life);
        break;
      case DfsOrder::kLifeArea:
        key = static_cast<double>(buffer.life) * size;
        break;
      case DfsOrder::kContention:
        key = static_cast<double>(
            *std::max_element(problem_.total.begin() + buffer.first,
                              problem_.total.begin() + buffer.past));
        break;
    }
    if (style_.seed != 0) {
      const uint64_t bits = MixBits(style_.seed * 1'000'003 + i);
      key *= 1 + style_.noise * (2 * UnitReal(bits) - 1);
    }
    rank_[i] = key;
  }
}

Verdict OffsetDfs::Run(int64_t capacity, const DfsStyle& style,
                       const DfsLimits& limits) {
  states_ = 0;
  depth_ = 0;
  if (problem_.bound > capacity) return Verdict::kImpossible;
  capacity_ = capacity;
  style_ = style;
  limits_ = limits;
  if (rules_.nogoods && nogoods_.empty()) nogoods_.resize(kNogoodSlots);
  Rank();
  trail_.clear();
  queue_.clear();
  queued_.assign(num_sections_, 0);
  floor_.assign(num_sections_, 0);
  top_.assign(num_sections_, 0);
  total_ = problem_.total;
  lowest_.assign(num_buffers_, 0);
  offset_.assign(num_buffers_, 0);
  crossing_.assign(num_sections_ + 1, 0);
  unplaced_.assign(words_, 0);
  for (int32_t i = 0; i < num_buffers_; ++i) {
    unplaced_[i / 64] |= uint64_t{1} << (i % 64);
    const SectionBuffer& buffer = problem_.buffers[i];
    for (int32_t s = buffer.first + 1; s < buffer.past; ++s) ++crossing_[s];
  }
  return Search(0, num_sections_);
}

}  // namespace onnx_memopt::plan
