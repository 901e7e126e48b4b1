#include "onnx_memopt/pass/pass_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::pass {

const std::string* PassOptions::Find(absl::string_view key,
                                     std::string default_text,
                                     absl::string_view help) {
  declared_.push_back(
      {std::string(key), std::move(default_text), std::string(help)});
  const auto it = values_.find(std::string(key));
  return it == values_.end() ? nullptr : &it->second;
}

absl::Status PassOptions::BadValue(absl::string_view key,
                                   absl::string_view value,
                                   absl::string_view expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat("pass ", pass_, ": option ", key, " is \"", Printable(value),
                   "\"; expected ", expected));
}

absl::StatusOr<int64_t> PassOptions::Int(absl::string_view key,
                                         int64_t default_value,
                                         absl::string_view help) {
  const std::string* text = Find(key, absl::StrCat(default_value), help);
  if (text == nullptr) return default_value;
  int64_t value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < 0) {
    return BadValue(key, *text, "a non-negative integer");
  }
  return value;
}

absl::StatusOr<double> PassOptions::Real(absl::string_view key,
                                         double default_value, double low,
                                         double high, absl::string_view help) {
  const std::string* text = Find(key, absl::StrCat(default_value), help);
  if (text == nullptr) return default_value;
  double value = 0;
  // NaN is between no two numbers.
  if (!absl::SimpleAtod(*text, &value) || !(value >= low && value <= high)) {
    return BadValue(key, *text,
                    absl::StrCat("a number from ", low, " to ", high));
  }
  return value;
}

absl::StatusOr<bool> PassOptions::Bool(absl::string_view key,
                                       bool default_value,
                                       absl::string_view help) {
  const std::string* text = Find(key, default_value ? "true" : "false", help);
  if (text == nullptr) return default_value;
  if (*text == "true" || *text == "1") return true;
  if (*text == "false" || *text == "0") return false;
  return BadValue(key, *text, "true or false");
}

std::string PassOptions::Text(absl::string_view key,
                              absl::string_view default_value,
                              absl::string_view help) {
  const std::string* text = Find(key, std::string(default_value), help);
  return text == nullptr ? std::string(default_value) : *text;
}

absl::StatusOr<size_t> PassOptions::Choice(
    absl::string_view key, absl::Span<const absl::string_view> choices,
    absl::string_view help) {
  const std::string* text = Find(key, std::string(choices.front()), help);
  if (text == nullptr) return 0;
  const auto* const found = std::find(choices.begin(), choices.end(), *text);
  if (found == choices.end()) {
    return BadValue(key, *text, absl::StrJoin(choices, " or "));
  }
  return static_cast<size_t>(found - choices.begin());
}

absl::Status PassOptions::CheckAllRead() const {
  for (const auto& [key, value] : values_) {
    const bool known =
        std::any_of(declared_.begin(), declared_.end(),
                    [&, &k = key](const Declaration& d) { return d.key == k; });
    if (known) continue;
    std::string names;
    for (const Declaration& d : declared_) {
      absl::StrAppend(&names, names.empty() ? "it has " : ", ", d.key);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("pass ", pass_, " has no option \"", Printable(key),
                     "\"; ", names.empty() ? "it has none" : names));
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::pass
