// onnx-memopt-plan recompute: a DAG into a budget, by running nodes again.
#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx-memopt-plan/commands.h"
#include "onnx-memopt-plan/parse_arguments.h"
#include "onnx-memopt-plan/recompute_file.h"
#include "onnx_memopt/plan/recompute.h"

namespace onnx_memopt::cli {
namespace {

constexpr char kDescription[] =
    R"(Meets a memory budget by running some nodes of a DAG again.

IN.json is {"n": N, "memory": [N], "cost": [N], "edges": [[producer, consumer],
...]}; PLAN.json becomes {"sequence": [node, ...], "cost", "peak"}, in which
nodes may repeat. A value lives from its run to the last run that reads it; each
run reads the latest values; any valid order may be used. Progress goes to
stderr, one JSON line with the result to stdout:
  found           a plan within the budget: cost, overhead_percent, peak, runs
  lower_bound     no plan costs less: proved
  optimal         the two are equal
  infeasible      proved that there is no plan; "proof" says how
  working_set     where there is no plan: values that every plan holds together
  method ("order", "exact", "chain", "greedy", "keep", "anneal"), seconds,
  threads, seed)";

constexpr char kFooter[] =
    R"(Examples:
  onnx-memopt-plan recompute in.json --budget 4934816 -o plan.json
  onnx-memopt-plan recompute in.json --budget 37056 -o plan.json --time-limit 1

Exit codes: 0 ok, 1 a malformed file, 2 usage, 3 no plan exists within the
budget, or none was found (no plan is written).)";

struct Arguments {
  std::string in;
  std::string out;
  plan::RecomputeOptions options;
  bool quiet = false;
};

// A line of progress no more often than this, except for the first plan.
constexpr double kSecondsBetweenLines = 0.5;

int Fail(const absl::Status& status) {
  std::cerr << "error: " << status.message() << "\n";
  return kExitInput;
}

class ProgressLines {
 public:
  void Show(const plan::RecomputeProgress& p) {
    if (!p.found || (shown_ && p.seconds < next_)) return;
    shown_ = true;
    next_ = p.seconds + kSecondsBetweenLines;
    const double gap = static_cast<double>(p.cost - p.lower_bound) /
                       std::max(1.0, static_cast<double>(p.lower_bound));
    std::cerr << absl::StrFormat("%7.2f s  cost %d  bound %d  gap %.3f %%\n",
                                 p.seconds, p.cost, p.lower_bound, 100 * gap);
  }

 private:
  bool shown_ = false;
  double next_ = 0;
};

std::optional<int> Parse(int argc, char** argv, Arguments& arguments) {
  CLI::App app(kDescription, "onnx-memopt-plan recompute");
  app.footer(kFooter);
  plan::RecomputeOptions& options = arguments.options;
  options.time_limit_seconds = 60;
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  options.threads = static_cast<int>(std::min(cores, 16U));
  app.add_option("IN.json", arguments.in)->required();
  app.add_option("--budget", options.budget,
                 "most memory at any time, in the unit of \"memory\"")
      ->required()
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  app.add_option("-o,--output", arguments.out, "the plan")
      ->required()
      ->option_text("PLAN.json");
  app.add_option("--time-limit", options.time_limit_seconds,
                 "stop after S seconds; 0: no limit, and the result depends on "
                 "the seed and the number of threads alone")
      ->check(CLI::NonNegativeNumber)
      ->option_text("S [60]");
  app.add_option(
         "--max-moves", options.max_moves,
         "stop a thread's search after N changes tried: unlike the time "
         "limit, the same on every machine")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  app.add_option("--threads", options.threads, "threads of the search")
      ->check(CLI::Range(1, 1024))
      ->option_text("N [the number of cores]");
  app.add_option("--seed", options.seed, "of the random choices")
      ->option_text("N [1]");
  // Only to measure what each method is worth: not in the help.
  std::vector<std::string> without;
  app.add_option("--without", without)
      ->group("")
      ->check(CLI::IsMember(
          {"schedule", "chain", "choices", "eviction", "keep", "anneal"}));
  app.add_flag("-q,--quiet", arguments.quiet, "no progress");
  if (const std::optional<int> code = ParseArguments(app, argc, argv)) {
    return code;
  }
  for (const std::string& method : without) {
    plan::RecomputeMethods& methods = options.methods;
    if (method == "schedule") methods.schedule = false;
    if (method == "chain") methods.chain = false;
    if (method == "choices") methods.choices = false;
    if (method == "eviction") methods.eviction = false;
    if (method == "keep") methods.keep = false;
    if (method == "anneal") methods.anneal = false;
  }
  return std::nullopt;
}

}  // namespace

int RunRecomputeCommand(int argc, char** argv) {
  Arguments arguments;
  if (const std::optional<int> exit = Parse(argc, argv, arguments)) {
    return *exit;
  }
  const absl::StatusOr<plan::RecomputeProblem> problem =
      ReadRecomputeProblem(arguments.in);
  if (!problem.ok()) return Fail(problem.status());
  ProgressLines progress;
  if (!arguments.quiet) {
    arguments.options.on_progress =
        [&progress](const plan::RecomputeProgress& p) { progress.Show(p); };
  }
  const absl::StatusOr<plan::RecomputeResult> result =
      plan::PlanRecompute(*problem, arguments.options);
  if (!result.ok()) {
    return Fail(
        absl::Status(result.status().code(),
                     absl::StrCat(arguments.in, ": ",
                                  std::string(result.status().message()))));
  }
  const bool found = result->outcome == plan::RecomputeOutcome::kPlan;
  if (found) {
    const absl::Status written = WriteRecomputePlan(arguments.out, *result);
    if (!written.ok()) return Fail(written);
  }
  std::cout << DescribeRecompute(*problem, arguments.options, *result) << '\n'
            << std::flush;
  return found ? kExitOk : kExitNotMet;
}

}  // namespace onnx_memopt::cli
