#include "onnx-memopt/extensions.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "onnx-memopt/arguments.h"

namespace onnx_memopt::cli {
namespace {

namespace fs = std::filesystem;

// A model in a file has a dot or a slash in its name, as a rule.
bool IsWord(std::string_view text) {
  return !text.empty() && absl::ascii_islower(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
         });
}

// A folder is no model, but is what a source tree may have of any name.
bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_directory(path, error);
}

std::vector<fs::path> FoldersOfPath() {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  if (path == nullptr) return folders;
  const std::vector<std::string> parts = absl::StrSplit(path, ':');
  for (const std::string& part : parts) {
    // An empty or relative one would run whatever lies where the user works.
    if (fs::path(part).is_absolute()) folders.emplace_back(part);
  }
  return folders;
}

// Empty if the system does not tell.
fs::path OwnFolder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path() : program.parent_path();
}

}  // namespace

std::optional<int> RunExtension(int argc, char** argv) {
  if (argc < 2 || !IsWord(argv[1]) || IsFile(argv[1])) return std::nullopt;
  const std::string word = argv[1];
  const std::string name = "onnx-memopt-" + word;

  std::vector<fs::path> folders = FoldersOfPath();
  std::string looked = "on PATH";
  const fs::path own = OwnFolder();
  if (!own.empty()) {
    const fs::path tree =
        (own / ".." / ".." / ".." / "python" / "bin").lexically_normal();
    folders.push_back(own);
    folders.push_back(tree);
    looked += ", in " + own.string() + " or in " + tree.string();
  }
  for (const fs::path& folder : folders) {
    std::string program = (folder / name).string();
    if (!IsFile(program) || access(program.c_str(), X_OK) != 0) continue;
    std::vector<char*> arguments = {program.data()};
    // With the null pointer that ends them.
    arguments.insert(arguments.end(), argv + 2, argv + argc + 1);
    execv(program.c_str(), arguments.data());
    std::cerr << "error: " << program << ": " << std::strerror(errno) << "\n";
    return kExitUsage;
  }
  // The model's own error says what is wrong with a folder.
  std::error_code error;
  if (fs::exists(word, error)) return std::nullopt;
  std::cerr << "error: " << word << ": no such file, and no program " << name
            << " " << looked << "; see onnx-memopt --help\n";
  return kExitUsage;
}

}  // namespace onnx_memopt::cli
