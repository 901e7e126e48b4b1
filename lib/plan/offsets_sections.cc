#include "plan/offsets_sections.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::plan {
namespace {

// Sorts the buffers and adds up the sections.
void Finish(SectionProblem& problem) {
  std::sort(problem.buffers.begin(), problem.buffers.end(),
            [](const SectionBuffer& a, const SectionBuffer& b) {
              return std::tie(a.size, a.first, a.past, a.source) <
                     std::tie(b.size, b.first, b.past, b.source);
            });
  std::vector<int64_t> change(problem.num_sections + 1, 0);
  for (const SectionBuffer& buffer : problem.buffers) {
    change[buffer.first] += buffer.size;
    change[buffer.past] -= buffer.size;
  }
  problem.total.resize(problem.num_sections);
  std::partial_sum(change.begin(), change.end() - 1, problem.total.begin());
  problem.bound = 0;
  for (int64_t total : problem.total) {
    problem.bound = std::max(problem.bound, total);
  }
}

}  // namespace

SectionProblem MakeSections(absl::Span<const Buffer> buffers) {
  // A new section begins where a live set that has begun to end meets the
  // first buffer that begins: between two begins without an end the later
  // live set includes the earlier one, which therefore never decides, and the
  // same holds for two ends without a begin.
  std::vector<std::pair<int32_t, int32_t>> events;  // (step, is_begin)
  int64_t divisor = 0;
  for (const Buffer& buffer : buffers) {
    if (buffer.size_bytes == 0) continue;
    divisor = std::gcd(divisor, buffer.size_bytes);
    events.emplace_back(buffer.begin, 1);
    events.emplace_back(buffer.end, 0);
  }
  std::sort(events.begin(), events.end());
  events.erase(std::unique(events.begin(), events.end()), events.end());
  // begins[k]: the step of the first end after section k's begins.
  std::vector<int32_t> last_begin;  // per section
  for (size_t k = 0; k < events.size(); ++k) {
    if (events[k].second == 1 &&
        (k + 1 == events.size() || events[k + 1].second == 0)) {
      last_begin.push_back(events[k].first);
    }
  }
  SectionProblem problem;
  problem.unit_bytes = std::max<int64_t>(divisor, 1);
  problem.num_sections = static_cast<int32_t>(last_begin.size());
  // A section stands for its last begin: the live set at that step.
  auto section_at = [&](int32_t step) {
    return static_cast<int32_t>(
        std::lower_bound(last_begin.begin(), last_begin.end(), step) -
        last_begin.begin());
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size_bytes == 0) continue;
    problem.buffers.push_back(
        {section_at(buffers[i].begin), section_at(buffers[i].end),
         buffers[i].size_bytes / problem.unit_bytes,
         int64_t{buffers[i].end} - buffers[i].begin, static_cast<int32_t>(i)});
  }
  Finish(problem);
  return problem;
}

std::vector<SectionProblem> SplitAtCuts(const SectionProblem& problem) {
  std::vector<int32_t> crossing(problem.num_sections + 1, 0);
  for (const SectionBuffer& buffer : problem.buffers) {
    // Over the borders before sections first + 1 .. past - 1.
    ++crossing[buffer.first + 1];
    --crossing[buffer.past];
  }
  std::partial_sum(crossing.begin(), crossing.end(), crossing.begin());
  std::vector<int32_t> part(problem.num_sections);
  std::vector<SectionProblem> parts;
  std::vector<int32_t> start;
  for (int32_t s = 0; s < problem.num_sections; ++s) {
    if (s == 0 || crossing[s] == 0) {
      parts.emplace_back();
      parts.back().unit_bytes = problem.unit_bytes;
      start.push_back(s);
    }
    part[s] = static_cast<int32_t>(parts.size()) - 1;
    ++parts.back().num_sections;
  }
  for (const SectionBuffer& buffer : problem.buffers) {
    const int32_t p = part[buffer.first];
    parts[p].buffers.push_back({buffer.first - start[p], buffer.past - start[p],
                                buffer.size, buffer.life, buffer.source});
  }
  for (SectionProblem& p : parts) Finish(p);
  return parts;
}

}  // namespace onnx_memopt::plan
