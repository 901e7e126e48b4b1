#include "onnx_memopt/support/scratch_file.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::TempDir;
using ::testing::HasSubstr;

class ScratchFileTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("TMPDIR", dir_.Path("").c_str(), 1); }
  void TearDown() override { unsetenv("TMPDIR"); }
  TempDir dir_;
};

TEST_F(ScratchFileTest, GivesBackWhatWasAppended) {
  auto file = ScratchFile::Create();
  ASSERT_THAT(file, IsOk());
  const std::string first(5000, 'a');
  const auto a = file->Append(first);
  const auto b = file->Append("second");
  ASSERT_THAT(a, IsOk());
  ASSERT_THAT(b, IsOk());
  EXPECT_EQ(*a, first);
  EXPECT_EQ(*b, "second");
  file->DropResident();
  EXPECT_EQ(*a, first);
  const ScratchFile moved = *std::move(file);
  EXPECT_EQ(*b, "second");
}

TEST_F(ScratchFileTest, HasNoName) {
  auto file = ScratchFile::Create();
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(file->Append("bytes"), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.Path("")));
}

TEST_F(ScratchFileTest, NamesAFolderThatIsNotThere) {
  setenv("TMPDIR", dir_.Path("absent").c_str(), 1);
  const auto file = ScratchFile::Create();
  EXPECT_THAT(std::string(file.status().message()),
              HasSubstr("absent\": no such file or folder"));
}

}  // namespace
}  // namespace onnx_memopt
