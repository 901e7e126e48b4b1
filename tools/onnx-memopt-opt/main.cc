// onnx-memopt-opt: for developers and for the textual tests. Runs a pipeline
// and prints the graph or analyses of it, as text that FileCheck can match.
//
//   onnx-memopt-opt model.onnxtxt --passes=drop-dead --print=graph
//   onnx-memopt-opt model.onnxtxt --print=liveness,profile
//   onnx-memopt-opt model.onnx --predict=bare --predict=default,threads=2
//   onnx-memopt-opt model.onnxtxt --passes=reorder -o out.onnxtxt

#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "onnx-memopt-opt/predict.h"
#include "onnx_memopt/analysis/aliases.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/assume_sizes.h"
#include "onnx_memopt/analysis/cost.h"
#include "onnx_memopt/analysis/flat_profile.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/analysis/weights.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/io/save.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pipeline.h"
#include "onnx_memopt/support/status_macros.h"
#include "registry.h"

namespace onnx_memopt {
namespace {

using analysis::AnalysisManager;
using Printer = absl::Status (*)(const ir::Graph&, AnalysisManager&,
                                 std::string*);

template <typename A>
absl::Status PrintAnalysis(const ir::Graph& graph, AnalysisManager& analyses,
                           std::string* out) {
  ASSIGN_OR_RETURN(const A* analysis, analyses.Get<A>());
  analysis->Print(graph, out);
  return absl::OkStatus();
}

absl::Status PrintGraph(const ir::Graph& graph, AnalysisManager& /*analyses*/,
                        std::string* out) {
  absl::StrAppend(out, ToString(graph));
  return absl::OkStatus();
}

absl::Status PrintFlow(const ir::Graph& graph, AnalysisManager& /*analyses*/,
                       std::string* out) {
  absl::StrAppend(out, FlowToString(graph));
  return absl::OkStatus();
}

absl::Status PrintPeakFormulas(const ir::Graph& graph,
                               AnalysisManager& analyses, std::string* out) {
  ASSIGN_OR_RETURN(const std::vector<ir::Dim> terms,
                   SymbolicPeak(graph, analyses));
  for (const ir::Dim& term : terms) {
    absl::StrAppend(out, term.ToString(), "\n");
  }
  return absl::OkStatus();
}

const std::map<std::string, Printer>& Printers() {
  static const auto& printers = *new std::map<std::string, Printer>{
      {"aliases", PrintAnalysis<analysis::Aliases>},
      {"cost", PrintAnalysis<analysis::Cost>},
      {"flow", PrintFlow},
      {"graph", PrintGraph},
      {"liveness", PrintAnalysis<analysis::Liveness>},
      {"packing", PrintAnalysis<analysis::Packing>},
      {"peak-formulas", PrintPeakFormulas},
      {"flat-profile", PrintAnalysis<analysis::FlatProfile>},
      {"profile", PrintAnalysis<analysis::MemoryProfile>},
      {"runtime", PrintAnalysis<analysis::RuntimeModel>},
      {"sizes", PrintAnalysis<analysis::Sizes>},
      {"time", PrintAnalysis<analysis::TimeModel>},
      {"timeline", PrintAnalysis<analysis::Timeline>},
      {"weights", PrintAnalysis<analysis::Weights>},
  };
  return printers;
}

struct Arguments {
  std::string model;
  std::string output;
  std::string passes;
  std::vector<std::string> print;
  std::vector<std::string> dims;
  std::vector<std::string> predict;
  bool print_after_all = false;
  double max_slowdown = 100 * pass::Goals().max_slowdown;
};

absl::Status Run(const Arguments& arguments) {
  io::ImportOptions import;
  for (const std::string& text : arguments.dims) {
    const std::pair<std::string, std::string> dim =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (!absl::SimpleAtoi(dim.second, &import.dims[dim.first])) {
      return absl::InvalidArgumentError(
          absl::StrCat("--dim: expected NAME=N, not \"", text, "\""));
    }
  }
  ASSIGN_OR_RETURN(const std::shared_ptr<const io::LoadedModel> model,
                   io::Load(arguments.model, {}));
  RETURN_IF_ERROR(CheckImportOptions(*model, import));
  ASSIGN_OR_RETURN(ir::Graph graph, Import(model, import));
  RETURN_IF_ERROR(analysis::AssumeSizes(&graph).status());
  for (const std::string& warning : graph.warnings) {
    std::cerr << "warning: " << warning << "\n";
  }
  ASSIGN_OR_RETURN(
      const pass::Pipeline pipeline,
      pass::ParsePipeline(arguments.passes, passes::RegisteredPasses()));
  pass::PipelineOptions options;
  options.goals.max_slowdown = arguments.max_slowdown / 100;
  if (arguments.print_after_all) {
    options.observer = [](absl::string_view pass, const ir::Graph& g) {
      std::cout << "# " << (pass.empty() ? "input" : "after ") << pass << "\n"
                << ToString(g);
    };
  }
  ASSIGN_OR_RETURN(const std::vector<pass::PassRun> runs,
                   RunPipeline(pipeline, graph, options));
  for (const pass::PassRun& run : runs) {
    for (const std::string& remark : run.remarks) {
      std::cout << "remark: " << run.name << ": " << remark << "\n";
    }
  }
  AnalysisManager analyses(&graph);
  for (const std::string& name : arguments.print) {
    std::string text;
    RETURN_IF_ERROR(Printers().at(name)(graph, analyses, &text));
    std::cout << text;
  }
  for (const std::string& wanted : arguments.predict) {
    ASSIGN_OR_RETURN(const std::string json, Predict(graph, analyses, wanted));
    std::cout << json << "\n";
  }
  if (arguments.output.empty()) return absl::OkStatus();
  std::vector<ir::Weight> made;
  ASSIGN_OR_RETURN(const onnx::ModelProto proto,
                   io::Export(*model, graph, {.made = &made}));
  return Save(proto, *model, arguments.output,
              {.made = made, .drop_resident = graph.drop_resident})
      .status();
}

int Main(int argc, char** argv) {
  CLI::App app("Runs passes and prints what they did, for developers.",
               "onnx-memopt-opt");
  Arguments arguments;
  std::vector<std::string> names;
  for (const auto& [name, printer] : Printers()) names.push_back(name);
  app.add_option("MODEL", arguments.model, ".onnx, .onnxtxt or -")->required();
  app.add_option("-o,--output", arguments.output,
                 "write the model; - is stdout");
  app.add_option("--passes", arguments.passes, "a pipeline");
  app.add_option("--print", arguments.print, "what to print after the pipeline")
      ->delimiter(',')
      ->check(CLI::IsMember(names));
  app.add_option("--dim", arguments.dims, "NAME=N")->allow_extra_args(false);
  app.add_option("--predict", arguments.predict,
                 "session options; print what the runtime model says of them")
      ->allow_extra_args(false);
  app.add_option("--max-slowdown", arguments.max_slowdown,
                 "per cent that passes may add to the time of a run")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--print-after-all", arguments.print_after_all,
               "print the graph before and after each pass");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(arguments);
  if (status.ok()) return 0;
  std::cerr << "error: " << arguments.model << ": " << status.message() << "\n";
  return 1;
}

}  // namespace
}  // namespace onnx_memopt

int main(int argc, char** argv) {
  try {
    return onnx_memopt::Main(argc, argv);
  } catch (const std::exception& error) {  // out of memory, most likely
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
