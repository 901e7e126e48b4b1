// Looks for the region that lowers the peak of a graph's working memory the
// most when it runs part by part.
//
//   SplitSearch search({});
//   ASSIGN_OR_RETURN(std::optional<SplitFound> found, search.Find(graph));
//   if (found) RETURN_IF_ERROR(SplitRegion(graph, found->plan).status());
#ifndef ONNX_MEMOPT_REWRITE_SPLIT_SEARCH_H_
#define ONNX_MEMOPT_REWRITE_SPLIT_SEARCH_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/split_region.h"
#include "onnx_memopt/rewrite/split_tally.h"

namespace onnx_memopt::rewrite {

struct SplitSearchOptions {
  // A region is worth it if the working memory over its steps falls below this
  // part of what it was.
  double worth = 0.93;
  // And by so many bytes.
  int64_t min_gain_bytes = 64 << 10;
  // Of several numbers of parts, the smallest whose peak is at most this many
  // times that of the best is taken: small parts cost time.
  double tolerance = 1.08;
  // By the time model: a region may take this much longer in parts, or a small
  // share of what is left of `max_seconds`, whichever is more.
  double max_slowdown = 0.1;
  // Of a run of the whole graph.
  double max_seconds = std::numeric_limits<double>::infinity();
  // Live bytes that are low enough. Of regions that reach them the fastest is
  // taken; of others the one that gains most for its time. 0: none are.
  int64_t enough_bytes = 0;
  // Pairs of nodes: a region with the first one has the second one, too, where
  // that is in the same block. Statistics of what a region makes cost next to
  // nothing inside it, and outside a copy of all that they are of.
  std::vector<std::pair<ir::NodeId, ir::NodeId>> together;
  // Norms are written in two phases, so that all tensors between them are as
  // large: regions are judged by their own steps, cut where a tensor has other
  // readers, and their parts divide the extent where that leaves a choice.
  bool between_norms = false;
  // Where nothing helps at the highest step, so many lower peaks of the main
  // graph are tried.
  int lower_peaks = 0;
  // No more parts than it takes to stay below the loops that there are already:
  // that costs least time.
  bool few_parts = false;
  // Regions tried at one place.
  int max_candidates = 400;
};

struct SplitFound {
  SplitPlan plan;
  // Working memory at the highest step of the region, before and after.
  int64_t before_bytes = 0;
  int64_t after_bytes = 0;
  // What a run of the graph takes longer for it, modelled; may be negative.
  double added_seconds = 0;
};

// One that has been taken, to find its like elsewhere: networks repeat blocks.
struct SplitRecipe {
  std::string seed;  // op and types of the node that it grew from
  std::string way;
  int begin = 0;  // positions, counted from the seed
  int end = 0;
  ir::Dim parts;
  std::optional<int64_t> part;
  double share_left = 1;  // working memory after, over what it was before
};

class SplitSearch {
 public:
  explicit SplitSearch(SplitSearchOptions options)
      : options_(std::move(options)) {}

  // What the whole graph may take from now on.
  void set_max_seconds(double seconds) { options_.max_seconds = seconds; }

  // The best region that covers the peak of the graph's working memory, or of
  // a subgraph that runs there; nullopt if none is worth it.
  absl::StatusOr<std::optional<SplitFound>> Find(const ir::Graph& graph);

  // What the last Find looked at.
  const SplitTally& tally() const { return tally_; }

 private:
  class Place;

  SplitSearchOptions options_;
  std::vector<SplitRecipe> recipes_;
  SplitTally tally_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_SPLIT_SEARCH_H_
