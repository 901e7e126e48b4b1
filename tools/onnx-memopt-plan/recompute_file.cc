#include "onnx-memopt-plan/recompute_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "onnx-memopt-plan/json_lines.h"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/support/atomic_file.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {
namespace {

using nlohmann::json;

// A file of more bytes is no problem that this program can plan.
constexpr size_t kMaxFileBytes = size_t{1} << 30;
// Deeper nesting would exhaust the parser's stack; the format needs 3.
constexpr int kMaxDepth = 64;

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  }
  std::string text;
  std::vector<char> chunk(1 << 16);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) ||
         file.gcount() > 0) {
    text.append(chunk.data(), static_cast<size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": more than ", kMaxFileBytes, " bytes"));
    }
  }
  if (file.bad()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  }
  return text;
}

absl::Status AtByte(const std::string& path, const std::string& text,
                    size_t byte, const std::string& what) {
  const auto end =
      text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size()));
  return absl::InvalidArgumentError(absl::StrCat(
      path, ":", 1 + std::count(text.begin(), end, '\n'), ": ", what));
}

// The first byte that is nested too deep; the size of the text if none is.
size_t FirstTooDeep(const std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return i;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return text.size();
}

absl::StatusOr<json> ParseJson(const std::string& path,
                               const std::string& text) {
  const size_t deep = FirstTooDeep(text);
  if (deep < text.size()) {
    return AtByte(path, text, deep,
                  absl::StrCat("nested more than ", kMaxDepth, " deep"));
  }
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    return AtByte(path, text, e.byte,
                  absl::StrCat("not valid JSON, at byte ", e.byte));
  } catch (const json::exception& e) {
    // The number stands between quotes in the message, and nowhere else.
    const std::string message = e.what();
    const size_t begin = message.find('\'') + 1;
    const std::string number =
        message.substr(begin, message.rfind('\'') - begin);
    return AtByte(path, text, text.find(number),
                  "holds a number that is out of range");
  }
}

// A parsed file, with what its messages need.
class Reader {
 public:
  Reader(const std::string& path, const std::string& text, const json& root)
      : path_(path), lines_(text), root_(root) {}

  absl::StatusOr<plan::RecomputeProblem> Read() {
    if (!root_.is_object()) return Wrong({}, "expected an object");
    ASSIGN_OR_RETURN(const json* count, Member("n"));
    ASSIGN_OR_RETURN(const int64_t n,
                     ReadCount({"n"}, *count, int64_t{1} << 28));
    plan::RecomputeProblem problem;
    ASSIGN_OR_RETURN(problem.memory, ReadList("memory", n));
    ASSIGN_OR_RETURN(problem.cost, ReadList("cost", n));
    problem.inputs.resize(n);
    RETURN_IF_ERROR(ReadEdges(problem));
    // An edge that stands twice says nothing new.
    for (std::vector<int32_t>& inputs : problem.inputs) {
      std::sort(inputs.begin(), inputs.end());
      inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    }
    return problem;
  }

 private:
  absl::Status Wrong(const JsonPath& where, const std::string& what) const {
    std::string pointer;
    for (const JsonStep& step : where) {
      if (const auto* key = std::get_if<std::string>(&step)) {
        absl::StrAppend(&pointer, "/", *key);
      } else {
        absl::StrAppend(&pointer, "/", std::get<size_t>(step));
      }
    }
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", lines_.Of(where), ": ",
                     pointer.empty() ? "/" : pointer, ": ", what));
  }

  absl::StatusOr<int64_t> ReadCount(const JsonPath& where, const json& value,
                                    int64_t end) const {
    if (!value.is_number_integer()) {
      return Wrong(where, "expected a whole number");
    }
    const bool too_large =
        value.is_number_unsigned() &&
        value.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (too_large || value.get<int64_t>() < 0 || value.get<int64_t>() >= end) {
      return Wrong(where, absl::StrCat("expected 0 to ", end - 1, ", found ",
                                       value.dump()));
    }
    return value.get<int64_t>();
  }

  absl::StatusOr<const json*> Member(const std::string& key) const {
    const auto it = root_.find(key);
    if (it == root_.end()) return Wrong({key}, "is missing");
    return &*it;
  }

  // Numbers that are not negative, and whose sum is below 2^63.
  absl::StatusOr<std::vector<int64_t>> ReadList(const std::string& key,
                                                int64_t size) const {
    ASSIGN_OR_RETURN(const json* list, Member(key));
    if (!list->is_array()) return Wrong({key}, "expected a list");
    if (list->size() != static_cast<size_t>(size)) {
      return Wrong({key},
                   absl::StrCat("expected ", size, " numbers, as \"n\" says, ",
                                "found ", list->size()));
    }
    std::vector<int64_t> values;
    int64_t sum = 0;
    for (size_t i = 0; i < list->size(); ++i) {
      ASSIGN_OR_RETURN(
          const int64_t value,
          ReadCount({key, i}, (*list)[i], std::numeric_limits<int64_t>::max()));
      const std::optional<int64_t> next = CheckedAdd(sum, value);
      if (!next) return Wrong({key, i}, "the sum up to here is beyond 2^63");
      sum = *next;
      values.push_back(value);
    }
    return values;
  }

  absl::Status ReadEdges(plan::RecomputeProblem& problem) const {
    const auto n = static_cast<int64_t>(problem.inputs.size());
    ASSIGN_OR_RETURN(const json* edges, Member("edges"));
    if (!edges->is_array()) return Wrong({"edges"}, "expected a list");
    for (size_t i = 0; i < edges->size(); ++i) {
      const json& edge = (*edges)[i];
      if (!edge.is_array() || edge.size() != 2) {
        return Wrong({"edges", i}, "expected [producer, consumer]");
      }
      ASSIGN_OR_RETURN(const int64_t producer,
                       ReadCount({"edges", i, size_t{0}}, edge[0], n));
      ASSIGN_OR_RETURN(const int64_t consumer,
                       ReadCount({"edges", i, size_t{1}}, edge[1], n));
      problem.inputs[consumer].push_back(static_cast<int32_t>(producer));
    }
    const std::vector<bool> stuck = Stuck(problem);
    for (size_t i = 0; i < edges->size(); ++i) {
      const json& edge = (*edges)[i];
      if (!stuck[edge[0].get<size_t>()] || !stuck[edge[1].get<size_t>()]) {
        continue;
      }
      return Wrong({"edges", i}, "is part of a cycle");
    }
    return absl::OkStatus();
  }

  // Nodes on a cycle, or between two. Nodes that can be run are taken away from
  // the front, and nodes that nothing waits for from the back.
  static std::vector<bool> Stuck(const plan::RecomputeProblem& problem) {
    const size_t n = problem.inputs.size();
    std::vector<std::vector<int32_t>> users(n);
    for (size_t v = 0; v < n; ++v) {
      for (int32_t u : problem.inputs[v]) {
        users[u].push_back(static_cast<int32_t>(v));
      }
    }
    std::vector<bool> stuck(n, true);
    TakeAway(problem.inputs, users, stuck);
    TakeAway(users, problem.inputs, stuck);
    return stuck;
  }

  // `before` and `after` may name a node twice.
  static void TakeAway(const std::vector<std::vector<int32_t>>& before,
                       const std::vector<std::vector<int32_t>>& after,
                       std::vector<bool>& stuck) {
    std::vector<size_t> waits(before.size(), 0);
    std::vector<size_t> free;
    for (size_t v = 0; v < before.size(); ++v) {
      for (int32_t u : before[v]) waits[v] += stuck[u] ? 1 : 0;
      if (stuck[v] && waits[v] == 0) free.push_back(v);
    }
    while (!free.empty()) {
      const size_t v = free.back();
      free.pop_back();
      stuck[v] = false;
      for (int32_t w : after[v]) {
        if (--waits[w] == 0 && stuck[w]) free.push_back(w);
      }
    }
  }

  const std::string& path_;
  JsonLines lines_;
  const json& root_;
};

}  // namespace

absl::StatusOr<plan::RecomputeProblem> ReadRecomputeProblem(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const json root, ParseJson(path, text));
  return Reader(path, text, root).Read();
}

absl::Status WriteRecomputePlan(const std::string& path,
                                const plan::RecomputeResult& result) {
  json root;
  root["sequence"] = result.sequence;
  root["cost"] = result.cost;
  root["peak"] = result.peak;
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  if (!file.ok()) {
    return absl::Status(file.status().code(),
                        absl::StrCat(path, ": ", file.status().message()));
  }
  absl::Status status = file->writer().Append(root.dump() + "\n");
  if (status.ok()) status = file->Commit();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

std::string DescribeRecompute(const plan::RecomputeProblem& problem,
                              const plan::RecomputeOptions& options,
                              const plan::RecomputeResult& result) {
  double base = 0;
  for (int64_t cost : problem.cost) base += static_cast<double>(cost);
  nlohmann::ordered_json line;
  line["nodes"] = problem.memory.size();
  const int64_t budget = options.budget;
  line["budget"] = budget;
  line["infeasible"] = result.outcome == plan::RecomputeOutcome::kInfeasible;
  const bool found = result.outcome == plan::RecomputeOutcome::kPlan;
  line["found"] = found;
  if (found) {
    line["cost"] = result.cost;
    line["overhead_percent"] =
        base > 0 ? 100 * (static_cast<double>(result.cost) - base) / base : 0;
    line["peak"] = result.peak;
    line["runs"] = result.sequence.size();
  }
  if (result.outcome != plan::RecomputeOutcome::kInfeasible) {
    line["lower_bound"] = result.lower_bound;
    line["optimal"] = result.optimal;
    line["method"] = result.method;
  }
  if (!found) {
    // What holds the floor: these are live together in every plan.
    nlohmann::ordered_json set;
    set["memory"] = result.working_set.memory;
    set["node"] = result.working_set.node;
    if (result.working_set.before >= 0) {
      set["before"] = result.working_set.before;
    }
    set["values"] = result.working_set.values;
    line["working_set"] = set;
    if (result.outcome == plan::RecomputeOutcome::kInfeasible) {
      line["proof"] =
          result.working_set.memory > budget ? "working set" : "exact search";
    }
  }
  line["seconds"] = result.seconds;
  line["threads"] = options.threads;
  line["seed"] = options.seed;
  return line.dump();
}

}  // namespace onnx_memopt::cli
