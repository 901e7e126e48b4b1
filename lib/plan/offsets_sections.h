// The problem as the exact search sees it: time cut into sections, sizes in
// units of their greatest common divisor.
//
// A section is a maximal interval of time with one live set, so a lifetime is
// a range of sections. Every offset that matters is a sum of sizes, hence a
// multiple of their divisor, and so is the optimal height.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_SECTIONS_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_SECTIONS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::plan {

struct SectionBuffer {
  int32_t first = 0;  // sections [first, past)
  int32_t past = 0;
  int64_t size = 0;    // in units
  int64_t life = 0;    // in steps, as given
  int32_t source = 0;  // its index among the buffers
};

struct SectionProblem {
  int64_t unit_bytes = 1;
  int32_t num_sections = 0;
  // By size, ascending; then by first, past, source.
  std::vector<SectionBuffer> buffers;
  std::vector<int64_t> total;  // live units of each section
  int64_t bound = 0;           // the largest of them
};

// The buffers must be checked and their sizes add up to less than 2^63; those
// of 0 bytes are left out.
SectionProblem MakeSections(absl::Span<const Buffer> buffers);

// The parts between which no buffer lives on, in order of time: each can be
// placed without regard to the others.
std::vector<SectionProblem> SplitAtCuts(const SectionProblem& problem);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_SECTIONS_H_
