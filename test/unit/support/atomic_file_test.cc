#include "onnx_memopt/support/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/support/mapped_file.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::FileMode;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::ReadFile;
using ::onnx_memopt::testing::StatusIs;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(AtomicFileTest, AppearsOnCommit) {
  TempDir dir;
  auto file = AtomicFile::Create(dir.Path("out"));
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(file->writer().Append("hello"), IsOk());
  EXPECT_EQ(dir.Names().count("out"), 0u);
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_EQ(ReadFile(dir.Path("out")), "hello");
  EXPECT_THAT(dir.Names(), ElementsAre("out"));
}

TEST(AtomicFileTest, LeavesNothingWithoutCommit) {
  TempDir dir;
  WriteFile(dir.Path("out"), "old");
  {
    auto file = AtomicFile::Create(dir.Path("out"));
    ASSERT_THAT(file, IsOk());
    AtomicFile moved = *std::move(file);
    ASSERT_THAT(moved.writer().Append("new"), IsOk());
    ASSERT_THAT(moved.Finish(), IsOk());
    EXPECT_EQ(dir.Names().size(), 2u);
  }
  EXPECT_THAT(dir.Names(), ElementsAre("out"));
  EXPECT_EQ(ReadFile(dir.Path("out")), "old");
}

TEST(AtomicFileTest, ModeFollowsUmaskOrTheReplacedFile) {
  TempDir dir;
  const mode_t old_mask = umask(027);
  auto fresh = AtomicFile::Create(dir.Path("fresh"));
  umask(old_mask);
  ASSERT_THAT(fresh, IsOk());
  ASSERT_THAT(fresh->Commit(), IsOk());
  EXPECT_EQ(FileMode(dir.Path("fresh")), 0640u);

  WriteFile(dir.Path("old"), "x");
  ASSERT_EQ(chmod(dir.Path("old").c_str(), 0604), 0);
  auto replacing = AtomicFile::Create(dir.Path("old"));
  ASSERT_THAT(replacing, IsOk());
  ASSERT_THAT(replacing->Commit(), IsOk());
  EXPECT_EQ(FileMode(dir.Path("old")), 0604u);
}

TEST(AtomicFileTest, RefusesWhatIsNoFile) {
  TempDir dir;
  EXPECT_THAT(AtomicFile::Create(dir.path()),
              StatusIs(_, HasSubstr("is a directory")));
  EXPECT_THAT(AtomicFile::Create("/dev/null"),
              StatusIs(_, HasSubstr("not a regular file")));
  EXPECT_THAT(AtomicFile::Create(dir.Path("none/out")),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(dir.Names(), IsEmpty());
}

TEST(AtomicFileTest, ReplacesALinkNotItsTarget) {
  TempDir dir;
  WriteFile(dir.Path("target"), "kept");
  ASSERT_EQ(symlink("target", dir.Path("link").c_str()), 0);
  auto file = AtomicFile::Create(dir.Path("link"));
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(file->writer().Append("new"), IsOk());
  ASSERT_THAT(file->Commit(), IsOk());
  EXPECT_EQ(ReadFile(dir.Path("target")), "kept");
  EXPECT_EQ(ReadFile(dir.Path("link")), "new");
}

TEST(FileWriterTest, MixesBytesPaddingAndCopies) {
  TempDir dir;
  std::string source(700'000, '\0');
  for (size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<char>(i * 31 % 251);
  }
  WriteFile(dir.Path("source"), source);
  UniqueFd fd(open(dir.Path("source").c_str(), O_RDONLY));
  auto file = AtomicFile::Create(dir.Path("out"));
  ASSERT_THAT(file, IsOk());
  FileWriter& out = file->writer();
  ASSERT_THAT(out.Append("abc"), IsOk());
  ASSERT_THAT(out.PadTo(64), IsOk());
  EXPECT_EQ(out.position(), 64);
  ASSERT_THAT(out.CopyFrom(fd.get(), 5, 600'000), IsOk());  // by the kernel
  ASSERT_THAT(out.CopyFrom(fd.get(), 1, 10), IsOk());       // buffered
  ASSERT_THAT(out.Append(source), IsOk());                  // unbuffered
  ASSERT_THAT(out.PadTo(64), IsOk());
  const int64_t end = out.position();
  ASSERT_THAT(file->Commit(), IsOk());
  std::string expected = "abc" + std::string(61, '\0') +
                         source.substr(5, 600'000) + source.substr(1, 10) +
                         source;
  expected.resize((expected.size() + 63) / 64 * 64);
  EXPECT_EQ(end, static_cast<int64_t>(expected.size()));
  EXPECT_TRUE(ReadFile(dir.Path("out")) == expected);
}

TEST(FileWriterTest, CopiesIntoAPipe) {
  TempDir dir;
  WriteFile(dir.Path("source"), std::string(300'000, 'x'));
  UniqueFd fd(open(dir.Path("source").c_str(), O_RDONLY));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ASSERT_GE(fcntl(ends[1], F_SETPIPE_SZ, 1 << 19), 1 << 19);
  FileWriter out(writer.get());
  ASSERT_THAT(out.CopyFrom(fd.get(), 0, 300'000), IsOk());
  ASSERT_THAT(out.Flush(), IsOk());
  writer.reset();
  auto got = ReadToEnd(reader.get(), 1 << 20);
  ASSERT_THAT(got, IsOk());
  EXPECT_TRUE(*got == std::string(300'000, 'x'));
}

TEST(FileWriterTest, SaysWhenTheSourceIsTooShortOrTheDiskIsFull) {
  TempDir dir;
  WriteFile(dir.Path("source"), std::string(300'000, 'x'));
  UniqueFd fd(open(dir.Path("source").c_str(), O_RDONLY));
  auto file = AtomicFile::Create(dir.Path("out"));
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(file->writer().CopyFrom(fd.get(), 0, 300'001),
              StatusIs(absl::StatusCode::kDataLoss, _));
  UniqueFd full(open("/dev/full", O_WRONLY));
  if (!full.valid()) GTEST_SKIP() << "this system has no /dev/full";
  FileWriter out(full.get());
  ASSERT_THAT(out.Append("x"), IsOk());
  EXPECT_THAT(out.Flush(), StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("no space left")));
}

}  // namespace
}  // namespace onnx_memopt
