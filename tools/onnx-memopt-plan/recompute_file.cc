#include "onnx-memopt-plan/recompute_file.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/support/atomic_file.h"
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

absl::StatusOr<json> ParseJson(const std::string& path,
                               const std::string& text) {
  bool too_deep = false;
  const auto watch_depth = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return true;
  };
  try {
    json parsed = json::parse(text, watch_depth);
    if (too_deep) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": nested more than ", kMaxDepth, " deep"));
    }
    return parsed;
  } catch (const json::parse_error& e) {
    const size_t byte = std::min(e.byte, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + byte, '\n');
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", line, ": not valid JSON, at byte ", e.byte));
  } catch (const json::exception&) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds a number that is out of range"));
  }
}

absl::Status Wrong(const std::string& path, const std::string& pointer,
                   const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", pointer, ": ", what));
}

absl::StatusOr<int64_t> ReadCount(const std::string& path,
                                  const std::string& pointer, const json& value,
                                  int64_t end) {
  if (!value.is_number_integer()) {
    return Wrong(path, pointer, "expected a whole number");
  }
  const bool too_large =
      value.is_number_unsigned() &&
      value.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (too_large || value.get<int64_t>() < 0 || value.get<int64_t>() >= end) {
    return Wrong(
        path, pointer,
        absl::StrCat("expected 0 to ", end - 1, ", found ", value.dump()));
  }
  return value.get<int64_t>();
}

absl::StatusOr<const json*> Member(const std::string& path, const json& object,
                                   const std::string& key) {
  const auto it = object.find(key);
  if (it == object.end()) return Wrong(path, "/" + key, "is missing");
  return &*it;
}

absl::StatusOr<std::vector<int64_t>> ReadList(const std::string& path,
                                              const json& object,
                                              const std::string& key,
                                              int64_t size) {
  ASSIGN_OR_RETURN(const json* list, Member(path, object, key));
  if (!list->is_array()) return Wrong(path, "/" + key, "expected a list");
  if (list->size() != static_cast<size_t>(size)) {
    return Wrong(path, "/" + key,
                 absl::StrCat("expected ", size, " numbers, as \"n\" says, ",
                              "found ", list->size()));
  }
  std::vector<int64_t> values;
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t value,
                     ReadCount(path, absl::StrCat("/", key, "/", i), (*list)[i],
                               std::numeric_limits<int64_t>::max()));
    values.push_back(value);
  }
  return values;
}

}  // namespace

absl::StatusOr<plan::RecomputeProblem> ReadRecomputeProblem(
    const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const json root, ParseJson(path, text));
  if (!root.is_object()) return Wrong(path, "/", "expected an object");
  ASSIGN_OR_RETURN(const json* count, Member(path, root, "n"));
  ASSIGN_OR_RETURN(const int64_t n,
                   ReadCount(path, "/n", *count, int64_t{1} << 28));
  plan::RecomputeProblem problem;
  ASSIGN_OR_RETURN(problem.memory, ReadList(path, root, "memory", n));
  ASSIGN_OR_RETURN(problem.cost, ReadList(path, root, "cost", n));
  problem.inputs.resize(n);
  ASSIGN_OR_RETURN(const json* edges, Member(path, root, "edges"));
  if (!edges->is_array()) return Wrong(path, "/edges", "expected a list");
  for (size_t i = 0; i < edges->size(); ++i) {
    const std::string pointer = absl::StrCat("/edges/", i);
    const json& edge = (*edges)[i];
    if (!edge.is_array() || edge.size() != 2) {
      return Wrong(path, pointer, "expected [producer, consumer]");
    }
    ASSIGN_OR_RETURN(const int64_t producer,
                     ReadCount(path, pointer + "/0", edge[0], n));
    ASSIGN_OR_RETURN(const int64_t consumer,
                     ReadCount(path, pointer + "/1", edge[1], n));
    problem.inputs[consumer].push_back(static_cast<int32_t>(producer));
  }
  // An edge that stands twice says nothing new.
  for (std::vector<int32_t>& inputs : problem.inputs) {
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  }
  return problem;
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
