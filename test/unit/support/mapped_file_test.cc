#include "onnx_memopt/support/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

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
using ::testing::_;
using ::testing::HasSubstr;

TEST(MappedFileTest, GivesTheBytesAcrossMovesAndReplacement) {
  TempDir dir;
  WriteFile(dir.Path("a"), "first");
  auto file = MappedFile::Open(dir.Path("a"));
  ASSERT_THAT(file, IsOk());
  MappedFile moved = *std::move(file);
  WriteFile(dir.Path("b"), "second");
  ASSERT_EQ(rename(dir.Path("b").c_str(), dir.Path("a").c_str()), 0);
  EXPECT_EQ(moved.bytes(), "first");
  moved.DropResident();
  EXPECT_EQ(moved.bytes(), "first");
  auto other = MappedFile::Open(dir.Path("a"));
  ASSERT_THAT(other, IsOk());
  moved = *std::move(other);
  EXPECT_EQ(moved.bytes(), "second");
}

TEST(MappedFileTest, SaysWhatIsWrong) {
  TempDir dir;
  EXPECT_THAT(MappedFile::Open(dir.Path("none")),
              StatusIs(absl::StatusCode::kNotFound, "no such file or folder"));
  EXPECT_THAT(MappedFile::Open(dir.path()), StatusIs(_, "is a directory"));
  WriteFile(dir.Path("empty"), "");
  EXPECT_THAT(MappedFile::Open(dir.Path("empty")), StatusIs(_, "empty file"));
  ASSERT_EQ(mkfifo(dir.Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::Open(dir.Path("pipe")),
              StatusIs(_, HasSubstr("not a regular file")));
  WriteFile(dir.Path("large"), "123456");
  EXPECT_THAT(MappedFile::Open(dir.Path("large"), 5),
              StatusIs(absl::StatusCode::kOutOfRange, _));
  EXPECT_THAT(MappedFile::Open(dir.Path("large"), 6), IsOk());
}

TEST(MappedFileTest, SaysWhenItMayNotRead) {
  if (geteuid() == 0) GTEST_SKIP() << "the superuser may read everything";
  TempDir dir;
  WriteFile(dir.Path("secret"), "x");
  ASSERT_EQ(chmod(dir.Path("secret").c_str(), 0), 0);
  EXPECT_THAT(
      MappedFile::Open(dir.Path("secret")),
      StatusIs(absl::StatusCode::kPermissionDenied, "permission denied"));
}

TEST(ReadToEndTest, ReadsAPipeUpToItsLimit) {
  for (const int64_t limit : {100'000, 99'999}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::string text(100'000, 'y');
      const ssize_t put = write(ends[1], text.data(), text.size());
      _exit(put == 100'000 ? 0 : 1);
    }
    writer.reset();
    auto got = ReadToEnd(reader.get(), limit);
    if (limit == 100'000) {
      ASSERT_THAT(got, IsOk());
      EXPECT_TRUE(*got == std::string(100'000, 'y'));
    } else {
      EXPECT_THAT(got, StatusIs(absl::StatusCode::kOutOfRange, _));
    }
  }
}

}  // namespace
}  // namespace onnx_memopt
