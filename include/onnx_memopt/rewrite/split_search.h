// Looks for the region that lowers the peak of a graph the most when it runs
// part by part.
//
//   SplitSearch search({});
//   ASSIGN_OR_RETURN(std::optional<SplitFound> found, search.Find(graph));
//   if (found) RETURN_IF_ERROR(SplitRegion(graph, found->plan).status());
#ifndef ONNX_MEMOPT_REWRITE_SPLIT_SEARCH_H_
#define ONNX_MEMOPT_REWRITE_SPLIT_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

struct SplitSearchOptions {
  // A region is worth it if the live bytes over its steps fall below this part
  // of what they were.
  double worth = 0.93;
  // And by so many bytes.
  int64_t min_gain_bytes = 64 << 10;
  // Of several numbers of parts, the smallest whose peak is at most this many
  // times that of the best is taken: small parts cost time.
  double tolerance = 1.08;
  // Rows of a matrix product below which it runs slower.
  int64_t min_rows = 32;
  // The same where parts overlap, as a multiple: they are copied as well, and
  // do not fall on the blocks that kernels work in.
  int64_t overlapping_rows = 4;
  // Bytes of the largest tensor in a part.
  int64_t min_part_bytes = 128 << 10;
  // Where parts overlap: arithmetic of what is computed twice, as a part of all
  // that the region computes.
  double max_extra_work = 0.1;
  // Regions tried at one place.
  int max_candidates = 400;
};

struct SplitFound {
  SplitPlan plan;
  // Live bytes at the highest step of the region, before and after.
  int64_t before_bytes = 0;
  int64_t after_bytes = 0;
};

// One that has been taken, to find its like elsewhere: networks repeat blocks.
struct SplitRecipe {
  std::string seed;  // op and types of the node that it grew from
  std::string way;
  int begin = 0;  // positions, counted from the seed
  int end = 0;
  ir::Dim parts;
  std::optional<int64_t> part;
};

class SplitSearch {
 public:
  explicit SplitSearch(SplitSearchOptions options) : options_(options) {}

  // The best region that covers the peak of the graph, or of a subgraph that
  // runs at the peak; nullopt if none is worth it.
  absl::StatusOr<std::optional<SplitFound>> Find(const ir::Graph& graph);

 private:
  class Place;

  SplitSearchOptions options_;
  std::vector<SplitRecipe> recipes_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_SPLIT_SEARCH_H_
