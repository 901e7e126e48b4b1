#include "onnx_memopt/support/format.h"

#include <cstdint>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::HasSubstr;

TEST(FormatTest, BytesHaveThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(13421772), "12.8 MiB");
  EXPECT_EQ(FormatBytes(int64_t{500} << 20), "500 MiB");
  // Never "1024 KiB": rounding goes on to the next unit.
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "8.00 EiB");
}

TEST(FormatTest, CountsAreDecimal) {
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1.00 k");
  EXPECT_EQ(FormatCount(999'999), "1.00 M");
  EXPECT_EQ(FormatCount(3'859'483'648), "3.86 G");
  EXPECT_EQ(FormatCount(std::numeric_limits<int64_t>::max()), "9.22 E");
}

TEST(FormatTest, ParsesBytes) {
  const struct {
    const char* text;
    int64_t bytes;
  } cases[] = {{"1048576", 1048576},
               {"0", 0},
               {"2GiB", int64_t{2} << 30},
               {" 512 MiB ", 512 << 20},
               {"1.5 GB", 1'500'000'000},
               {"64k", 64 << 10},
               {"1kb", 1000},
               {"7B", 7},
               {".5K", 512}};
  for (const auto& c : cases) {
    const auto bytes = ParseBytes(c.text);
    ASSERT_THAT(bytes, IsOk()) << c.text;
    EXPECT_EQ(*bytes, c.bytes) << c.text;
  }
  for (const char* text : {"", "GiB", "1.2.3", "-1", "1 XB", "1e9", "nan",
                           "10000000 TiB", "1 2", "0x10"}) {
    EXPECT_THAT(ParseBytes(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not a size; expected one like")))
        << text;
  }
}

TEST(FormatTest, EllipsizeKeepsTheEnd) {
  EXPECT_EQ(Ellipsize("short", 5), "short");
  EXPECT_EQ(Ellipsize("/encoder/layer.11/output", 12), "/en../output");
  EXPECT_EQ(Ellipsize("abcdef", 2), "ab");
  EXPECT_EQ(Ellipsize("abcdef", 0), "");
  EXPECT_EQ(Ellipsize("", 3), "");
}

// Of characters, not of bytes: half a character would spoil the line.
TEST(FormatTest, EllipsizeCutsBetweenCharacters) {
  const std::string text = "äöüäöüäöü";  // 9 columns, 18 bytes
  EXPECT_EQ(Ellipsize(text, 9), text);
  EXPECT_EQ(Ellipsize(text, 8), "äö..üäöü");
  EXPECT_EQ(Ellipsize(text, 1), "ä");
  // Each of these takes two columns.
  EXPECT_EQ(Ellipsize("張量張量張量", 12), "張量張量張量");
  EXPECT_EQ(Ellipsize("張量張量張量", 8), "張..張量");
  // Bytes that are no UTF-8 count one each.
  EXPECT_EQ(Ellipsize("\xff\xff\xff\xff\xff", 4).size(), 4u);
}

TEST(FormatTest, PrintableEscapesWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("plain /name:0"), "plain /name:0");
  EXPECT_EQ(Printable("a\nb\tc"), "a\\x0ab\\x09c");
  EXPECT_EQ(Printable("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(Printable(std::string("nul\0!", 5)), "nul\\x00!");
  EXPECT_EQ(Printable("größe 張量"), "größe 張量");
  EXPECT_EQ(Printable("bad \xff\xc3"), "bad \\xff\\xc3");
  // An overlong encoding of "/", and half of a surrogate pair.
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  // A right-to-left override is not printed as such.
  EXPECT_THAT(Printable("a\xe2\x80\xae"), HasSubstr("\\xe2"));
}

}  // namespace
}  // namespace onnx_memopt
