#include "onnx_memopt/support/sha256.h"

#include <fcntl.h>

#include "gtest/gtest.h"
#include "onnx_memopt/support/unique_fd.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;

// The values are those of FIPS 180-2 and of coreutils' sha256sum.
TEST(Sha256Test, KnownValues) {
  EXPECT_EQ(*Sha256Hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(*Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, AFileInChunksIsTheSameAsItsBytes) {
  TempDir dir;
  // A million "a" is a FIPS value; here more than one chunk of 1 MiB.
  const std::string bytes((1 << 20) + 12345, 'a');
  WriteFile(dir.Path("f"), bytes);
  UniqueFd fd(open(dir.Path("f").c_str(), O_RDONLY));
  auto of_file = Sha256HexOfFile(fd.get());
  ASSERT_THAT(of_file, IsOk());
  EXPECT_EQ(*of_file, *Sha256Hex(bytes));
  EXPECT_EQ(*Sha256HexOfFile(fd.get()), *of_file);
}

TEST(Sha256Test, ReportsAnUnreadableDescriptor) {
  EXPECT_FALSE(Sha256HexOfFile(-1).ok());
}

}  // namespace
}  // namespace onnx_memopt
