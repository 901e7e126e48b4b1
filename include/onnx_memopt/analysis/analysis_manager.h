// Computes analyses on demand and keeps them until the graph changes.
//
// An analysis is a class that changes nothing, with
//
//   static absl::StatusOr<A> Compute(const ir::Graph&, AnalysisManager&);
//   void Print(const ir::Graph&, std::string* out) const;
//
//   AnalysisManager analyses(&graph);
//   ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
//
// A pointer stays valid until InvalidateAll, which whoever changes the graph
// must call.
#ifndef ONNX_MEMOPT_ANALYSIS_ANALYSIS_MANAGER_H_
#define ONNX_MEMOPT_ANALYSIS_ANALYSIS_MANAGER_H_

#include <memory>
#include <typeindex>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class AnalysisManager {
 public:
  // `graph` must outlive the manager.
  explicit AnalysisManager(const ir::Graph* graph) : graph_(graph) {}

  template <typename A>
  absl::StatusOr<const A*> Get() {
    const std::type_index key(typeid(A));
    const auto it = results_.find(key);
    if (it != results_.end()) return static_cast<const A*>(it->second.get());
    absl::StatusOr<A> result = A::Compute(*graph_, *this);
    if (!result.ok()) return result.status();
    auto owned = std::make_shared<const A>(*std::move(result));
    const A* raw = owned.get();
    results_[key] = std::move(owned);
    return raw;
  }

  void InvalidateAll() { results_.clear(); }

 private:
  const ir::Graph* graph_;
  absl::flat_hash_map<std::type_index, std::shared_ptr<const void>> results_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_ANALYSIS_MANAGER_H_
