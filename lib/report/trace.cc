#include "onnx_memopt/report/trace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace onnx_memopt {
namespace {

using Json = nlohmann::ordered_json;

// Time stamps are in microseconds.
constexpr int64_t kStepMicroseconds = 1000;

// Threads of a process: the nodes, then the lanes of tensors.
constexpr int64_t kNodes = 1;
constexpr int64_t kFirstLane = 2;

class TraceWriter {
 public:
  void Add(int64_t pid, absl::string_view name, const ReportProfile& profile) {
    Metadata(pid, 0, "process_name", name);
    Metadata(pid, kNodes, "thread_name", "nodes");
    AddSteps(pid, profile);
    AddBuffers(pid, profile);
  }

  std::string Finish() {
    return absl::StrCat("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n",
                        events_, "\n]}\n");
  }

 private:
  void Event(const Json& event) {
    absl::StrAppend(&events_, events_.empty() ? "" : ",\n",
                    event.dump(-1, ' ', /*ensure_ascii=*/false,
                               Json::error_handler_t::replace));
  }

  void Metadata(int64_t pid, int64_t tid, const char* what,
                absl::string_view name) {
    Event({{"ph", "M"},
           {"pid", pid},
           {"tid", tid},
           {"name", what},
           {"args", {{"name", std::string(name)}}}});
  }

  // Tracks are shown in the order of their threads.
  void SortIndex(int64_t pid, int64_t tid) {
    Event({{"ph", "M"},
           {"pid", pid},
           {"tid", tid},
           {"name", "thread_sort_index"},
           {"args", {{"sort_index", tid}}}});
  }

  void Counter(int64_t pid, int64_t step, int64_t bytes) {
    Event({{"ph", "C"},
           {"pid", pid},
           {"ts", step * kStepMicroseconds},
           {"name", "live activations"},
           {"args", {{"bytes", bytes}}}});
  }

  void AddSteps(int64_t pid, const ReportProfile& profile) {
    int64_t step = 0;
    for (const ReportStep& row : profile.steps) {
      Counter(pid, step, row.live_bytes);
      Event({{"ph", "X"},
             {"pid", pid},
             {"tid", kNodes},
             {"ts", step * kStepMicroseconds},
             {"dur", kStepMicroseconds},
             {"cat", "node"},
             {"name", row.op},
             {"args",
              {{"node", row.name},
               {"step", step},
               {"live_bytes", row.live_bytes}}}});
      ++step;
    }
    Counter(pid, step, 0);
  }

  // Complete events of one thread must be nested or apart, so that each tensor
  // takes the first lane that is free.
  void AddBuffers(int64_t pid, const ReportProfile& profile) {
    const std::vector<ReportBuffer>& buffers = profile.buffers;
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return buffers[a].begin != buffers[b].begin
                 ? buffers[a].begin < buffers[b].begin
                 : buffers[a].bytes > buffers[b].bytes;
    });
    using Busy = std::pair<int64_t, int64_t>;  // until which step, lane
    std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> free;
    int64_t lanes = 0;
    for (const size_t i : order) {
      const ReportBuffer& buffer = buffers[i];
      while (!busy.empty() && busy.top().first <= buffer.begin) {
        free.push(busy.top().second);
        busy.pop();
      }
      int64_t lane = lanes;
      if (free.empty()) {
        const int64_t tid = kFirstLane + lanes++;
        Metadata(pid, tid, "thread_name", absl::StrCat("tensors ", lanes));
        SortIndex(pid, tid);
      } else {
        lane = free.top();
        free.pop();
      }
      busy.emplace(buffer.end, lane);
      Event({{"ph", "X"},
             {"pid", pid},
             {"tid", kFirstLane + lane},
             {"ts", buffer.begin * kStepMicroseconds},
             {"dur", (buffer.end - buffer.begin) * kStepMicroseconds},
             {"cat", "tensor"},
             {"name", buffer.tensor},
             {"args",
              {{"bytes", buffer.bytes},
               {"offset_bytes", buffer.offset_bytes},
               {"begin", buffer.begin},
               {"end", buffer.end}}}});
    }
  }

  std::string events_;
};

}  // namespace

std::string ReportToTrace(const Report& report) {
  TraceWriter trace;
  trace.Add(1, report.profile_after ? "before" : "model",
            report.profile_before);
  if (report.profile_after) trace.Add(2, "after", *report.profile_after);
  return trace.Finish();
}

}  // namespace onnx_memopt
