#include "onnx_memopt/support/random_access_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::HasSubstr;

TEST(RandomAccessFileTest, ReadsRanges) {
  TempDir dir;
  WriteFile(dir.Path("data"), "0123456789");
  auto file = RandomAccessFile::Open(dir.Path("data"));
  ASSERT_THAT(file, IsOk());
  std::string buffer(4, ' ');
  EXPECT_THAT(file->Read(3, absl::MakeSpan(buffer.data(), 4)), IsOk());
  EXPECT_EQ(buffer, "3456");
  EXPECT_THAT(file->Read(0, {}), IsOk());
  EXPECT_THAT(file->Read(8, absl::MakeSpan(buffer.data(), 4)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("ends at byte 10; 2 more were expected")));
  RandomAccessFile moved = *std::move(file);
  EXPECT_THAT(moved.Read(6, absl::MakeSpan(buffer.data(), 4)), IsOk());
  EXPECT_EQ(buffer, "6789");
}

TEST(RandomAccessFileTest, MissingFileIsNotFound) {
  TempDir dir;
  EXPECT_THAT(
      RandomAccessFile::Open(dir.Path("none")),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("none: No such file")));
}

TEST(RandomAccessFileTest, AFolderCannotBeRead) {
  TempDir dir;
  const auto file = RandomAccessFile::Open(dir.path());
  ASSERT_THAT(file, IsOk());
  char byte = 0;
  EXPECT_THAT(file->Read(0, absl::MakeSpan(&byte, 1)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("directory")));
}

TEST(RandomAccessFileTest, HolesAreNeverData) {
  TempDir dir;
  constexpr int64_t kMiB = 1 << 20;
  WriteFile(dir.Path("sparse"), "");
  ASSERT_EQ(truncate(dir.Path("sparse").c_str(), 8 * kMiB), 0);
  const int fd = open(dir.Path("sparse").c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(pwrite(fd, "x", 1, 4 * kMiB), 1);
  close(fd);
  const auto file = RandomAccessFile::Open(dir.Path("sparse"));
  ASSERT_THAT(file, IsOk());
  // Whether the file system has holes at all is its own affair.
  EXPECT_FALSE(file->IsHole(4 * kMiB, 1));
  EXPECT_FALSE(file->IsHole(3 * kMiB, 2 * kMiB));
  char byte = 'a';
  EXPECT_THAT(file->Read(kMiB, absl::MakeSpan(&byte, 1)), IsOk());
  EXPECT_EQ(byte, '\0');
}

}  // namespace
}  // namespace onnx_memopt
