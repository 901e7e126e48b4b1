#include "onnx_memopt/pass/pipeline.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::pass {
namespace {

// About what a call of a runtime takes beside the nodes.
constexpr double kUnnoticedSeconds = 1e-4;

struct PassText {
  std::string name;
  std::map<std::string, std::string> options;
};

// Splits at the commas that are not between braces.
absl::StatusOr<std::vector<absl::string_view>> SplitPasses(
    absl::string_view text) {
  std::vector<absl::string_view> parts;
  size_t begin = 0;
  bool in_braces = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && !in_braces)) {
      parts.push_back(
          absl::StripAsciiWhitespace(text.substr(begin, i - begin)));
      begin = i + 1;
    } else if (text[i] == '{' || text[i] == '}') {
      if (in_braces == (text[i] == '{')) {
        return absl::InvalidArgumentError(
            absl::StrCat("pipeline: unexpected \"", text.substr(i, 1),
                         "\" at character ", i + 1));
      }
      in_braces = !in_braces;
    }
  }
  if (in_braces) {
    return absl::InvalidArgumentError("pipeline: \"}\" is missing at the end");
  }
  return parts;
}

absl::StatusOr<PassText> ParsePass(absl::string_view text) {
  PassText pass;
  const size_t brace = text.find('{');
  pass.name = std::string(absl::StripAsciiWhitespace(text.substr(0, brace)));
  if (brace == absl::string_view::npos) return pass;
  const absl::string_view rest = absl::StripAsciiWhitespace(text.substr(brace));
  if (rest.back() != '}') {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline: unexpected text after \"}\" in \"", Printable(text), "\""));
  }
  const absl::string_view options = rest.substr(1, rest.size() - 2);
  for (absl::string_view option :
       absl::StrSplit(options, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> key_value =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    pass.options[std::string(absl::StripAsciiWhitespace(key_value.first))] =
        std::string(absl::StripAsciiWhitespace(key_value.second));
  }
  return pass;
}

absl::StatusOr<std::unique_ptr<Pass>> MakePass(
    const PassText& text, absl::Span<const PassInfo> known) {
  const auto info =
      std::find_if(known.begin(), known.end(),
                   [&](const PassInfo& p) { return p.name == text.name; });
  if (info == known.end()) {
    std::string names;
    for (const PassInfo& p : known) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", p.name);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("there is no pass \"", Printable(text.name),
                     "\"; the passes are ", names));
  }
  PassOptions options(text.name, text.options);
  ASSIGN_OR_RETURN(std::unique_ptr<Pass> pass, info->make(options));
  RETURN_IF_ERROR(options.CheckAllRead());
  return pass;
}

}  // namespace

absl::StatusOr<Pipeline> ParsePipeline(absl::string_view text,
                                       absl::Span<const PassInfo> known) {
  Pipeline pipeline;
  if (absl::StripAsciiWhitespace(text).empty()) return pipeline;
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> parts,
                   SplitPasses(text));
  for (absl::string_view part : parts) {
    ASSIGN_OR_RETURN(const PassText pass_text, ParsePass(part));
    ASSIGN_OR_RETURN(std::unique_ptr<Pass> pass, MakePass(pass_text, known));
    pipeline.push_back(std::move(pass));
  }
  return pipeline;
}

std::vector<PassOptions::Declaration> DescribeOptions(const PassInfo& info) {
  PassOptions options(std::string(info.name), {});
  // Defaults are always valid; what is wanted is what the factory declares.
  const absl::StatusOr<std::unique_ptr<Pass>> pass = info.make(options);
  return pass.ok() ? options.declarations()
                   : std::vector<PassOptions::Declaration>();
}

absl::StatusOr<std::vector<PassRun>> RunPipeline(
    const Pipeline& pipeline, ir::Graph& graph,
    const PipelineOptions& options) {
  using Clock = std::chrono::steady_clock;
  analysis::AnalysisManager analyses(&graph);
  std::vector<PassRun> runs;
  double max_seconds = std::numeric_limits<double>::infinity();
  if (!pipeline.empty()) {
    ASSIGN_OR_RETURN(const analysis::TimeModel* time,
                     analyses.Get<analysis::TimeModel>());
    max_seconds = time->total_seconds() * (1 + options.goals.max_slowdown) +
                  kUnnoticedSeconds;
  }
  if (options.observer) options.observer("", graph);
  for (const std::unique_ptr<Pass>& pass : pipeline) {
    const Clock::time_point start = Clock::now();
    PassContext context(&analyses, options.goals, max_seconds);
    absl::StatusOr<bool> changed = pass->Run(graph, context);
    if (!changed.ok()) {
      return absl::Status(changed.status().code(),
                          absl::StrCat("pass ", pass->name(), ": ",
                                       changed.status().message()));
    }
    if (*changed) analyses.InvalidateAll();
    if (const absl::Status valid = Verify(graph); !valid.ok()) {
      return absl::InternalError(absl::StrCat(
          "pass ", pass->name(), " broke the graph: ", valid.message()));
    }
    PassRun run;
    run.name = std::string(pass->name());
    run.changed = *changed;
    run.remarks = std::move(context.remarks());
    run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    runs.push_back(std::move(run));
    if (options.observer) options.observer(pass->name(), graph);
  }
  return runs;
}

absl::StatusOr<std::vector<PassRun>> PreviewPipeline(const Pipeline& pipeline,
                                                     const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  std::vector<PassRun> runs;
  for (const std::unique_ptr<Pass>& pass : pipeline) {
    PassContext context(&analyses);
    const absl::Status status = pass->Preview(graph, context);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("pass ", pass->name(),
                                                      ": ", status.message()));
    }
    if (context.remarks().empty()) continue;
    runs.push_back({.name = std::string(pass->name()),
                    .remarks = std::move(context.remarks())});
  }
  return runs;
}

}  // namespace onnx_memopt::pass
