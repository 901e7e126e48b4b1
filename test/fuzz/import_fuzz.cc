// libFuzzer target: any bytes, through everything that the programs do with a
// model: read, import (with sizes assumed for its named dims, and with these
// bound), analyse, report, rewrite, write, and read again. Nothing may crash,
// leak or hang, and what was written must be read again.
//
//   build/asan/bin/import_fuzz -max_total_time=60
//       -dict=test/fuzz/import_fuzz.dict test/fuzz/corpus/import_fuzz
//
// Sizes of dims and how much is split come from a hash of the bytes, so that an
// input reproduces by itself and is an .onnx file that other tools can open.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/substitute.h"
#include "onnx_memopt/analysis/aliases.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/cost.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/analysis/weights.h"
#include "onnx_memopt/driver/build_report.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/io/payload_splice.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pipeline.h"
#include "onnx_memopt/report/json.h"
#include "onnx_memopt/report/text.h"
#include "onnx_memopt/support/status_macros.h"
#include "registry.h"

namespace onnx_memopt {
namespace {

using analysis::AnalysisManager;
using ModelPtr = std::shared_ptr<const io::LoadedModel>;

// No such folder, so that no file of this machine is read.
constexpr char kFolder[] = "/nonexistent/onnx-memopt";
// The default pipeline, with a bound on its work, and up to $0 regions that are
// split whether or not it pays. An input that takes seconds finds nothing that
// a smaller one does not.
constexpr char kPipeline[] =
    "drop-dead,share-initializers,reorder{max-states=2000,beam=4},"
    "split{force=$0},split{max-regions=1},no-pattern,reserve";
// Passes that users ask for by name: an input goes through one of these before
// the default pipeline.
constexpr const char* kByName[] = {
    "",
    "",
    "break-reuse,rematerialize{force=3}",
    "half-precision",
    "half-precision{type=bfloat16,interface=half,out-of-range=clamp}",
    "factorize{energy=0.9,min-elements=1}",
    "share-initializers{uniform=true},tie-layers",
};
// Functions that call functions unfold to many nodes: those are imported only.
constexpr size_t kMaxNodes = 20'000;
constexpr size_t kMaxBytes = 64 << 10;

// An error that no input may cause.
void Expect(const absl::Status& status, const char* where) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", where, status.ToString().c_str());
  std::abort();
}

template <typename A>
absl::Status PrintAnalysis(const ir::Graph& graph, AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const A* analysis, analyses.Get<A>());
  std::string text;
  analysis->Print(graph, &text);
  return absl::OkStatus();
}

absl::Status Analyse(const ir::Graph& graph) {
  AnalysisManager analyses(&graph);
  RETURN_IF_ERROR(PrintAnalysis<analysis::Timeline>(graph, analyses));
  RETURN_IF_ERROR(PrintAnalysis<analysis::Aliases>(graph, analyses));
  RETURN_IF_ERROR(PrintAnalysis<analysis::Sizes>(graph, analyses));
  RETURN_IF_ERROR(PrintAnalysis<analysis::Liveness>(graph, analyses));
  RETURN_IF_ERROR(PrintAnalysis<analysis::MemoryProfile>(graph, analyses));
  RETURN_IF_ERROR(PrintAnalysis<analysis::Cost>(graph, analyses));
  RETURN_IF_ERROR(PrintAnalysis<analysis::Weights>(graph, analyses));
  Report report;
  ASSIGN_OR_RETURN(report.before,
                   BuildPeak(graph, analyses, /*formulas=*/true));
  ASSIGN_OR_RETURN(report.weights, BuildWeights(graph, analyses));
  RETURN_IF_ERROR(BuildTables(graph, analyses, &report));
  report.warnings = graph.warnings;
  ReportToText(report, {.max_tensors = 100, .verbose = true});
  ReportToJson(report, "0");
  return PrintAnalysis<analysis::Packing>(graph, analyses);
}

// What they may refuse: a model that is in 16 bits, weights that are not there.
absl::Status RewriteByName(ir::Graph& graph, uint64_t hash) {
  const std::string passes = kByName[(hash >> 8) % std::size(kByName)];
  if (passes.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const pass::Pipeline pipeline,
                   pass::ParsePipeline(passes, passes::RegisteredPasses()));
  const absl::Status status = RunPipeline(pipeline, graph, {}).status();
  if (absl::IsInternal(status)) Expect(status, passes.c_str());
  return status;
}

absl::Status Rewrite(ir::Graph& graph, uint64_t hash) {
  ASSIGN_OR_RETURN(
      const pass::Pipeline pipeline,
      pass::ParsePipeline(absl::Substitute(kPipeline, 1 + hash % 3),
                          passes::RegisteredPasses()));
  return RunPipeline(pipeline, graph, {}).status();
}

absl::StatusOr<std::string> Write(const io::LoadedModel& model,
                                  const ir::Graph& graph) {
  ASSIGN_OR_RETURN(const onnx::ModelProto proto, io::Export(model, graph));
  const std::string skeleton = proto.SerializeAsString();
  ASSIGN_OR_RETURN(const io::SplicedModel spliced,
                   io::SplicePayloads(skeleton, model.payloads()));
  std::string bytes;
  for (absl::string_view segment : spliced.segments) {
    bytes.append(segment.data(), segment.size());
  }
  return bytes;
}

// Sizes from 1 to 8, and now and then one that makes products overflow.
ir::Bindings BindAll(const std::vector<std::string>& names, uint64_t hash) {
  ir::Bindings dims;
  for (const std::string& name : names) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    dims[name] = hash >> 60 == 0 ? int64_t{1} << 40
                                 : 1 + static_cast<int64_t>(hash >> 61);
  }
  return dims;
}

// Sums that a model's sizes overflow are a refusal, not a fault.
bool IsRefusal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsOutOfRange(status);
}

void RunOnce(const ModelPtr& model, const io::ImportOptions& options,
             uint64_t hash) {
  absl::StatusOr<ir::Graph> graph = Import(model, options);
  if (!graph.ok()) return;
  graph->assumed = BindAll(graph->symbols, hash);
  Expect(Verify(*graph), "import");
  if (graph->num_nodes() > kMaxNodes) return;
  ToString(*graph);
  const absl::Status analysed = Analyse(*graph);
  if (IsRefusal(analysed)) return;
  Expect(analysed, "analyses");
  if (!RewriteByName(*graph, hash).ok()) return;
  const absl::Status rewritten = Rewrite(*graph, hash);
  if (IsRefusal(rewritten)) return;
  Expect(rewritten, "passes");
  Expect(Analyse(*graph), "analyses after the passes");
  absl::StatusOr<std::string> bytes = Write(*model, *graph);
  Expect(bytes.status(), "export");
  const absl::StatusOr<ModelPtr> again =
      io::FromBytes(*std::move(bytes), kFolder);
  Expect(again.status(), "the written model");
  Expect(Import(*again, options).status(), "the written model");
}

}  // namespace
}  // namespace onnx_memopt

// NOLINTNEXTLINE: libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace onnx_memopt;  // NOLINT: this is the whole program
  if (size > kMaxBytes) return 0;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  }
  const absl::StatusOr<ModelPtr> model =
      io::FromBytes(std::move(bytes), kFolder);
  if (!model.ok()) return 0;
  RunOnce(*model, {}, hash);
  const absl::StatusOr<ir::Graph> graph = Import(*model, {});
  if (!graph.ok() || graph->symbols.empty()) return 0;
  RunOnce(*model, {.dims = BindAll(graph->symbols, hash)}, hash);
  return 0;
}
