// A page of docs/ that is made from a table of the program.
//
//   ExpectPage("docs/ops.md", RenderTable());
#ifndef ONNX_MEMOPT_TEST_SUPPORT_DOCS_PAGE_H_
#define ONNX_MEMOPT_TEST_SUPPORT_DOCS_PAGE_H_

#include <cstdlib>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace onnx_memopt::testing {

// Fails if the file, relative to the top of the repository, is not as wanted;
// with ONNX_MEMOPT_UPDATE_DOCS in the environment it is written first.
inline void ExpectPage(const std::string& path, const std::string& wanted) {
  if (std::getenv("ONNX_MEMOPT_UPDATE_DOCS") != nullptr) {
    std::ofstream out(path, std::ios::binary);
    out << wanted;
    ASSERT_TRUE(out.flush().good()) << "cannot write " << path;
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream found;
  found << in.rdbuf();
  EXPECT_TRUE(found.str() == wanted)
      << path << " is out of date: run this test with "
      << "ONNX_MEMOPT_UPDATE_DOCS=1 at the top of the repository";
}

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_SUPPORT_DOCS_PAGE_H_
