// Times of the steps of one run, each by itself, on graphs of 1,000, 10,000 and
// 100,000 nodes. What a step needs is computed before the clock starts.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "bench/transformer.h"
#include "benchmark/benchmark.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/schedule_problem.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/plan/schedule.h"

namespace onnx_memopt::bench {
namespace {

using ModelPtr = std::shared_ptr<const io::LoadedModel>;

// A step that fails has no time.
template <typename T>
T ValueOrExit(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::cerr << "error: " << result.status().message() << "\n";
  std::exit(1);
}

ModelPtr Model(const benchmark::State& state) {
  return ValueOrExit(io::FromProto(MakeTransformer(state.range(0)), ""));
}

void Import(benchmark::State& state) {
  const ModelPtr model = Model(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValueOrExit(io::Import(model, {})));
  }
}

template <typename Analysis>
void Analyse(benchmark::State& state) {
  const ir::Graph graph = ValueOrExit(io::Import(Model(state), {}));
  analysis::AnalysisManager analyses(&graph);
  // All that it needs is in the manager from then on.
  ValueOrExit(analyses.Get<Analysis>());
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValueOrExit(Analysis::Compute(graph, analyses)));
  }
}

void Liveness(benchmark::State& state) { Analyse<analysis::Liveness>(state); }

void MemoryProfile(benchmark::State& state) {
  Analyse<analysis::MemoryProfile>(state);
}

void Packing(benchmark::State& state) { Analyse<analysis::Packing>(state); }

void Reorder(benchmark::State& state) {
  const ir::Graph graph = ValueOrExit(io::Import(Model(state), {}));
  analysis::AnalysisManager analyses(&graph);
  const analysis::ScheduleProblemOfBlock problem = ValueOrExit(
      analysis::BuildScheduleProblem(graph, analyses, ir::kMainBlock));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        ValueOrExit(plan::MinimizePeak(problem.problem, {})));
  }
}

void Export(benchmark::State& state) {
  const ModelPtr model = Model(state);
  const ir::Graph graph = ValueOrExit(io::Import(model, {}));
  for (auto _ : state) {
    benchmark::DoNotOptimize(ValueOrExit(io::Export(*model, graph)));
  }
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(
      benchmark::kMillisecond);
}

BENCHMARK(Import)->Apply(Sizes);
BENCHMARK(Liveness)->Apply(Sizes);
BENCHMARK(MemoryProfile)->Apply(Sizes);
BENCHMARK(Packing)->Apply(Sizes);
BENCHMARK(Reorder)->Apply(Sizes);
BENCHMARK(Export)->Apply(Sizes);

}  // namespace
}  // namespace onnx_memopt::bench
