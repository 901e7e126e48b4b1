// Each input of the fuzz target's corpus, once, without libFuzzer. A crash or
// an abort is a failure of the whole program; the trace names the input.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "support/temp_dir.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace onnx_memopt {
namespace {

TEST(ImportFuzzCorpusTest, RunsEachInput) {
  const std::filesystem::path folder = "test/fuzz/corpus/import_fuzz";
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().string());
  }
  EXPECT_GE(names.size(), 30u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    RecordProperty("input", name);
    const std::string bytes = testing::ReadFile(name);
    EXPECT_EQ(LLVMFuzzerTestOneInput(
                  reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
              0);
  }
}

// Each input cut short, and with a byte changed: a small fuzzing run that is
// the same every time.
TEST(ImportFuzzCorpusTest, RunsDamagedInputs) {
  size_t runs = 0;
  uint32_t random = 1;
  for (const auto& entry :
       std::filesystem::directory_iterator("test/fuzz/corpus/import_fuzz")) {
    const std::string bytes = testing::ReadFile(entry.path().string());
    if (bytes.size() > 4096) continue;
    for (int i = 0; i < 20; ++i) {
      random = random * 1664525u + 1013904223u;
      std::string damaged = bytes;
      if (damaged.empty()) continue;
      const size_t at = (random >> 8) % damaged.size();
      if (i % 4 == 0) {
        damaged.resize(at);
      } else {
        damaged[at] = static_cast<char>(random >> 16);
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(damaged.data()),
                             damaged.size());
      ++runs;
    }
  }
  EXPECT_GT(runs, 200u);
}

}  // namespace
}  // namespace onnx_memopt
