// A pass changes the graph; everything it may use is in its context.
//
//   class DropDead : public Pass {
//    public:
//     absl::string_view name() const override { return "drop-dead"; }
//     absl::StatusOr<bool> Run(ir::Graph& graph,
//                              PassContext& context) override;
//   };
//
// Run returns true if it changed the graph, and must not have touched it when
// it returns false. The pass manager verifies the graph after each pass. A
// finding that a user wants to know ("shared 3 weights, saves 12 MiB") is a
// remark.
#ifndef ONNX_MEMOPT_PASS_PASS_H_
#define ONNX_MEMOPT_PASS_PASS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::pass {

// What is asked of the rewritten model.
struct Goals {
  // A run may take this much longer than that of the model as it came, by the
  // time model: 0.1 for 10 %. Infinite: no matter how long.
  double max_slowdown = 0.1;
  // No lower peak than this is wanted of ONNX Runtime's steady state: once a
  // change has reached it, no more time is given for memory.
  std::optional<int64_t> budget_bytes;
};

class PassContext {
 public:
  // `max_seconds` is for a run of what the pass makes.
  explicit PassContext(
      analysis::AnalysisManager* analyses, Goals goals = {},
      double max_seconds = std::numeric_limits<double>::infinity())
      : analyses_(analyses), goals_(goals), max_seconds_(max_seconds) {}

  const Goals& goals() const { return goals_; }
  // Modelled time that a run may take, of all passes together.
  double max_seconds() const { return max_seconds_; }

  // Of the graph as it was when the pass began; after a change of its own, the
  // pass calls InvalidateAll before it asks again.
  analysis::AnalysisManager& analyses() { return *analyses_; }

  void Remark(absl::string_view text) { remarks_.emplace_back(text); }
  // What Run returns where the pass does not apply, as kFailedPrecondition
  // says: the reason is a remark. Of any other error, the error.
  absl::StatusOr<bool> LeaveAsIs(const absl::Status& why);
  std::vector<std::string>& remarks() { return remarks_; }

 private:
  analysis::AnalysisManager* analyses_;
  Goals goals_;
  double max_seconds_;
  std::vector<std::string> remarks_;
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual absl::string_view name() const = 0;
  virtual absl::StatusOr<bool> Run(ir::Graph& graph, PassContext& context) = 0;
  // Remarks on what Run would do, for a report without a rewrite. Of a pass
  // that has nothing to plan: none.
  virtual absl::Status Preview(const ir::Graph& /*graph*/,
                               PassContext& /*context*/) {
    return absl::OkStatus();
  }
};

}  // namespace onnx_memopt::pass

#endif  // ONNX_MEMOPT_PASS_PASS_H_
