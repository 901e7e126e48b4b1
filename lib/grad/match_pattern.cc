#include <cstddef>
#include <string>

#include "onnx_memopt/grad/training_step.h"

namespace onnx_memopt::grad {

bool MatchesPattern(const std::string& name, const std::string& pattern) {
  size_t n = 0;
  size_t p = 0;
  size_t star = std::string::npos;  // the last "*", and what it stands for so
  size_t upto = 0;                  // far ends here
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) &&
        pattern[p] != '*') {
      ++n;
      ++p;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      upto = n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++upto;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace onnx_memopt::grad
