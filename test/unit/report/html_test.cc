#include "onnx_memopt/report/html.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "onnx_memopt/report/json.h"
#include "support/status_matchers.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

constexpr char kOpen[] = "<script type=\"application/json\" id=\"report\">";

TEST(HtmlTest, WithoutThePageItSaysSo) {
  if (CheckPage().ok()) GTEST_SKIP() << "this build has the page";
  EXPECT_THAT(ReportToHtml(Report(), "1.2.3"),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("made without Node.js")));
}

TEST(HtmlTest, TheReportIsInItAndCannotGetOut) {
  if (!CheckPage().ok()) GTEST_SKIP() << "this build has no page";
  Report report;
  report.model.path =
      "</script><script>alert(1)</script><!-- & \u2028 \u2029 \xe2\x80\xa6";
  const absl::StatusOr<std::string> page = ReportToHtml(report, "1.2.3");
  ASSERT_THAT(page, IsOk());
  const size_t begin = page->find(kOpen) + sizeof(kOpen) - 1;
  const size_t end = page->find("</script>", begin);
  const std::string inside = page->substr(begin, end - begin);
  EXPECT_THAT(inside, Not(HasSubstr("<")));
  EXPECT_THAT(inside, Not(HasSubstr("\u2028")));
  EXPECT_THAT(inside, HasSubstr("\\u2028 \\u2029 \xe2\x80\xa6"));
  EXPECT_EQ(Json::parse(inside), Json::parse(ReportToJson(report, "1.2.3")));
  EXPECT_EQ(page->substr(end).find("alert(1)"), std::string::npos);
}

}  // namespace
}  // namespace onnx_memopt
