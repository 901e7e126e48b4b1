#include "onnx_memopt/report/trace.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace onnx_memopt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

// a [0, 2) 100, b [1, 3) 40, c [2, 3) 100: 100, 140, 140 live; c can take a's
// lane, and b needs one of its own.
Report Example() {
  Report report;
  report.profile_before = {
      .arena_bytes = 140,
      .steps = {{.name = "n0", .op = "Conv", .live_bytes = 100},
                {.name = "n1", .op = "Relu", .live_bytes = 140},
                {.name = "n2", .op = "Add", .live_bytes = 140}},
      .buffers = {{.tensor = "a", .begin = 0, .end = 2, .bytes = 100},
                  {.tensor = "b",
                   .begin = 1,
                   .end = 3,
                   .bytes = 40,
                   .offset_bytes = 100},
                  {.tensor = "c", .begin = 2, .end = 3, .bytes = 100}}};
  return report;
}

std::vector<Json> Events(const Report& report, const char* kind) {
  const Json trace = Json::parse(ReportToTrace(report));
  std::vector<Json> events;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == kind) events.push_back(event);
  }
  return events;
}

TEST(TraceTest, TheCounterFollowsTheSteps) {
  std::vector<int64_t> times;
  std::vector<int64_t> bytes;
  for (const Json& event : Events(Example(), "C")) {
    times.push_back(event["ts"]);
    bytes.push_back(event["args"]["bytes"]);
  }
  EXPECT_THAT(times, ElementsAre(0, 1000, 2000, 3000));
  EXPECT_THAT(bytes, ElementsAre(100, 140, 140, 0));
}

TEST(TraceTest, TensorsLastAsLongAsTheyLive) {
  std::map<std::string, std::vector<int64_t>> found;
  for (const Json& event : Events(Example(), "X")) {
    if (event["cat"] != "tensor") continue;
    found[event["name"]] = {event["ts"], event["dur"], event["tid"]};
  }
  EXPECT_THAT(found["a"], ElementsAre(0, 2000, 2));
  EXPECT_THAT(found["b"], ElementsAre(1000, 2000, 3));
  EXPECT_THAT(found["c"], ElementsAre(2000, 1000, 2));
}

// Complete events of a thread that overlap are shown wrong.
TEST(TraceTest, NoLaneHasTwoTensorsAtATime) {
  Report report = Example();
  report.profile_before.buffers.clear();
  for (int64_t i = 0; i < 50; ++i) {
    report.profile_before.buffers.push_back({.tensor = "t",
                                             .begin = i * 7 % 23,
                                             .end = i * 7 % 23 + 1 + i % 9,
                                             .bytes = i});
  }
  std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> lanes;
  for (const Json& event : Events(report, "X")) {
    if (event["cat"] != "tensor") continue;
    const int64_t begin = event["ts"];
    const int64_t end = begin + event["dur"].get<int64_t>();
    for (const auto& [other_begin, other_end] : lanes[event["tid"]]) {
      EXPECT_TRUE(end <= other_begin || other_end <= begin);
    }
    lanes[event["tid"]].emplace_back(begin, end);
  }
  EXPECT_GT(lanes.size(), 1u);
}

TEST(TraceTest, BeforeAndAfterAreProcesses) {
  Report report = Example();
  report.profile_after = report.profile_before;
  std::map<int64_t, std::string> names;
  for (const Json& event : Events(report, "M")) {
    if (event["name"] == "process_name") {
      names[event["pid"]] = event["args"]["name"];
    }
  }
  EXPECT_EQ(names,
            (std::map<int64_t, std::string>{{1, "before"}, {2, "after"}}));
}

TEST(TraceTest, NamesNeedNotBeUtf8) {
  Report report = Example();
  report.profile_before.buffers[0].tensor = "\"\xff\n";
  EXPECT_THAT(ReportToTrace(report), HasSubstr("\\\"\xef\xbf\xbd\\n"));
}

TEST(TraceTest, AnEmptyModelIsATrace) {
  EXPECT_EQ(Events(Report(), "X").size(), 0u);
}

}  // namespace
}  // namespace onnx_memopt
