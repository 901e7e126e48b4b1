// onnx-memopt-plan offsets: buffers with known lifetimes into one arena.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "onnx-memopt-plan/commands.h"
#include "onnx-memopt-plan/offsets_file.h"
#include "onnx-memopt-plan/offsets_pools.h"
#include "onnx-memopt-plan/parse_arguments.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/plan/offsets_search.h"

namespace onnx_memopt::cli {
namespace {

constexpr char kDescription[] =
    R"(Places buffers with known lifetimes in one arena, as low as possible.

IN.csv has a header with the columns id, lower, upper and size, and a line for
each buffer, which lives in [lower, upper). OUT.csv repeats it with a column
offset. Two more columns may be there:
  pool  a name: buffers of each pool are placed in an arena of their own
  over  the id of a buffer over which this one may be computed in place: it
        begins in that buffer's last step, and is not larger
Progress goes to stderr, one JSON line with the result to stdout:
  height          bytes of the arena, or of all pools together
  pools           with a column pool: the bytes of each
  lower_bound     no plan is lower: proved
  proved_optimal  the two are equal
  gap             height / lower_bound - 1
  capacity, feasible  with --capacity: true, false (proved), or null (not known)
  seconds, method ("greedy", "improved" or "search"), states (of the search),
  buffers, threads, seed)";

constexpr char kFooter[] =
    R"(Examples:
  onnx-memopt-plan offsets in.csv -o out.csv --time-limit 10
  onnx-memopt-plan offsets in.csv -o out.csv --capacity 1048576

Exit codes: 0 ok, 1 a malformed file, 2 usage, 3 no plan within --capacity was
found (the best plan is written all the same).)";

struct Arguments {
  std::string in;
  std::string out;
  plan::OffsetOptions options;
  bool quiet = false;
};

std::optional<int> Parse(int argc, char** argv, Arguments& arguments) {
  CLI::App app(kDescription, "onnx-memopt-plan offsets");
  app.footer(kFooter);
  plan::OffsetOptions& options = arguments.options;
  options.time_limit_s = 60;
  options.max_states = std::numeric_limits<int64_t>::max();
  options.max_placements = std::numeric_limits<int64_t>::max();
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  options.threads = static_cast<int>(std::min(cores, 16U));
  int64_t capacity = -1;
  std::vector<std::string> without;
  app.add_option("IN.csv", arguments.in)->required();
  app.add_option("-o,--output", arguments.out, "the plan")
      ->required()
      ->option_text("OUT.csv");
  app.add_option("--capacity", capacity,
                 "only find a plan of at most N bytes, or prove there is none")
      ->check(CLI::NonNegativeNumber)
      ->option_text("N");
  app.add_option("--time-limit", options.time_limit_s, "stop after S seconds")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->option_text("S [60]");
  app.add_option("--threads", options.threads, "threads of the search")
      ->check(CLI::Range(1, 1024))
      ->option_text("N [the number of cores]");
  app.add_option("--seed", options.seed, "of the random choices")
      ->option_text("N [1]");
  app.add_option("--max-states", options.max_states,
                 "stop a thread's search after N states: unlike the time "
                 "limit, the same on every machine")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  app.add_option("--max-placements", options.max_placements,
                 "the same for the improvement that precedes the search")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
  // Only to measure what each rule is worth: not in the help.
  app.add_option("--without", without)
      ->group("")
      ->check(CLI::IsMember({"nogoods", "support", "decompose", "fail-first",
                             "raise", "restarts", "low-aims", "warm-up"}));
  app.add_flag("-q,--quiet", arguments.quiet, "no progress");
  if (const std::optional<int> code = ParseArguments(app, argc, argv)) {
    return code;
  }
  if (capacity >= 0) options.capacity_bytes = capacity;
  for (const std::string& rule : without) {
    if (rule == "nogoods") options.rules.nogoods = false;
    if (rule == "support") options.rules.support = false;
    if (rule == "decompose") options.rules.decompose = false;
    if (rule == "fail-first") options.rules.fail_first = false;
    if (rule == "raise") options.rules.raise = false;
    if (rule == "restarts") options.rules.restarts = false;
    if (rule == "low-aims") options.rules.low_aims = false;
    if (rule == "warm-up") options.rules.warm_up = false;
  }
  return std::nullopt;
}

// Six digits after the point, whatever the locale.
std::string Fixed(double value) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::fixed << std::setprecision(6) << value;
  return out.str();
}

double Gap(int64_t height, int64_t bound) {
  if (height == bound) return 0;
  return static_cast<double>(height) / static_cast<double>(bound) - 1;
}

void PrintProgress(const plan::OffsetProgress& progress) {
  std::cerr << absl::StrCat(
      Fixed(progress.seconds), " s: best ", progress.best_bytes, ", bound ",
      progress.lower_bound_bytes, ", gap ",
      Fixed(100 * Gap(progress.best_bytes, progress.lower_bound_bytes)),
      " %\n");
}

// A JSON string; names in a file may hold anything.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string ResultLine(const Arguments& arguments, const OffsetsFile& file,
                       const PoolsSolution& solution, double seconds) {
  const int64_t height = solution.plan.arena_bytes;
  const int64_t bound = solution.lower_bound_bytes;
  std::string line =
      absl::StrCat("{\"height\": ", height, ", \"lower_bound\": ", bound,
                   ", \"proved_optimal\": ", height == bound ? "true" : "false",
                   ", \"gap\": ", Fixed(Gap(height, bound)));
  if (file.has_pools) {
    const char* separator = "";
    absl::StrAppend(&line, ", \"pools\": {");
    for (size_t i = 0; i < file.pools.size(); ++i) {
      absl::StrAppend(&line, separator, Quoted(file.pools[i]), ": ",
                      solution.pool_bytes[i]);
      separator = ", ";
    }
    absl::StrAppend(&line, "}");
  }
  if (arguments.options.capacity_bytes) {
    const int64_t capacity = *arguments.options.capacity_bytes;
    absl::StrAppend(&line, ", \"capacity\": ", capacity, ", \"feasible\": ",
                    height <= capacity ? "true"
                    : bound > capacity ? "false"
                                       : "null");
  }
  absl::StrAppend(&line, ", \"seconds\": ", Fixed(seconds), ", \"method\": \"",
                  solution.method, "\", \"states\": ", solution.states,
                  ", \"buffers\": ", file.rows.size(),
                  ", \"threads\": ", arguments.options.threads,
                  ", \"seed\": ", arguments.options.seed, "}");
  return line;
}

int Fail(const absl::Status& status) {
  std::cerr << "error: " << status.message() << "\n";
  return kExitInput;
}

}  // namespace

int RunOffsetsCommand(int argc, char** argv) {
  const auto start = std::chrono::steady_clock::now();
  Arguments arguments;
  if (std::optional<int> code = Parse(argc, argv, arguments)) return *code;
  if (!arguments.quiet) arguments.options.progress = PrintProgress;
  absl::StatusOr<OffsetsFile> file = ReadOffsetsFile(arguments.in);
  if (!file.ok()) return Fail(file.status());
  if (file->pools.size() > 1 && arguments.options.capacity_bytes) {
    std::cerr << "error: " << arguments.in << ": --capacity is for one arena, "
              << "and the file has " << file->pools.size() << " pools\n";
    return kExitUsage;
  }
  const absl::StatusOr<PoolsSolution> solution =
      SolvePools(*file, arguments.options);
  absl::Status status = solution.status();
  if (!status.ok()) {
    return Fail(absl::Status(
        status.code(), absl::StrCat(arguments.in, ": ", status.message())));
  }
  status = WriteOffsetsFile(arguments.out, *file, solution->plan);
  if (!status.ok()) return Fail(status);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  std::cout << ResultLine(arguments, *file, *solution, seconds.count()) << '\n'
            << std::flush;
  const std::optional<int64_t>& capacity = arguments.options.capacity_bytes;
  return capacity && solution->plan.arena_bytes > *capacity ? kExitNotMet
                                                            : kExitOk;
}

}  // namespace onnx_memopt::cli
