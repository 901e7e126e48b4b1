// The options of one pass in a pipeline text: "reorder{beam=128}".
//
//   absl::StatusOr<std::unique_ptr<Pass>> MakeReorder(PassOptions& options) {
//     ASSIGN_OR_RETURN(int64_t beam, options.Int("beam", 64, "states kept"));
//     ...
//   }
//
// Each read declares a key; a key in the text that no read declares is an error
// that lists the known ones.
#ifndef ONNX_MEMOPT_PASS_PASS_OPTIONS_H_
#define ONNX_MEMOPT_PASS_PASS_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace onnx_memopt::pass {

class PassOptions {
 public:
  PassOptions(std::string pass, std::map<std::string, std::string> values)
      : pass_(std::move(pass)), values_(std::move(values)) {}

  struct Declaration {
    std::string key;
    std::string default_text;
    std::string help;
  };

  absl::StatusOr<int64_t> Int(absl::string_view key, int64_t default_value,
                              absl::string_view help);
  // From `low` to `high`.
  absl::StatusOr<double> Real(absl::string_view key, double default_value,
                              double low, double high, absl::string_view help);
  absl::StatusOr<bool> Bool(absl::string_view key, bool default_value,
                            absl::string_view help);
  std::string Text(absl::string_view key, absl::string_view default_value,
                   absl::string_view help);
  // One of `choices`, by index; the first is the default.
  absl::StatusOr<size_t> Choice(absl::string_view key,
                                absl::Span<const absl::string_view> choices,
                                absl::string_view help);

  // kInvalidArgument if the text has a key that was never read.
  absl::Status CheckAllRead() const;
  const std::vector<Declaration>& declarations() const { return declared_; }

 private:
  const std::string* Find(absl::string_view key, std::string default_text,
                          absl::string_view help);
  absl::Status BadValue(absl::string_view key, absl::string_view value,
                        absl::string_view expected) const;

  std::string pass_;
  std::map<std::string, std::string> values_;
  std::vector<Declaration> declared_;
};

}  // namespace onnx_memopt::pass

#endif  // ONNX_MEMOPT_PASS_PASS_OPTIONS_H_
