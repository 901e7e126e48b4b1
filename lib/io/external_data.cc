#include "io/external_data.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "onnx_memopt/io/payload_scan.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

bool HasInlineData(const onnx::TensorProto& tensor) {
  return !tensor.raw_data().empty() || tensor.float_data_size() > 0 ||
         tensor.int32_data_size() > 0 || tensor.string_data_size() > 0 ||
         tensor.int64_data_size() > 0 || tensor.double_data_size() > 0 ||
         tensor.uint64_data_size() > 0 || HasMarker(tensor);
}

// A non-negative decimal number and nothing else.
absl::StatusOr<int64_t> ParseNumber(absl::string_view key,
                                    absl::string_view text) {
  int64_t number = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(text, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "external data ", key, " \"", Ellipsize(Printable(text), 40),
        "\" is not a number of bytes"));
  }
  return number;
}

absl::Status BadLocation(absl::string_view location, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("external data location \"",
                   Ellipsize(Printable(location), 80), "\" ", why));
}

void SetValue(absl::string_view key, absl::string_view value,
              onnx::TensorProto* tensor) {
  for (onnx::StringStringEntryProto& entry : *tensor->mutable_external_data()) {
    if (absl::string_view(entry.key()) == key) {
      entry.set_value(std::string(value));
      return;
    }
  }
  onnx::StringStringEntryProto* entry = tensor->add_external_data();
  entry->set_key(std::string(key));
  entry->set_value(std::string(value));
}

}  // namespace

bool IsExternal(const onnx::TensorProto& tensor) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return true;
  return tensor.external_data_size() > 0 && !HasInlineData(tensor);
}

absl::StatusOr<ExternalEntry> ParseExternalEntry(
    const onnx::TensorProto& tensor) {
  if (HasInlineData(tensor)) {
    return absl::InvalidArgumentError(
        "has both external data and data of its own");
  }
  ExternalEntry result;
  std::vector<absl::string_view> seen;
  for (const onnx::StringStringEntryProto& entry : tensor.external_data()) {
    const absl::string_view key = entry.key();
    if (key != "location" && key != "offset" && key != "length") continue;
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("external data has two values for ", key));
    }
    seen.push_back(key);
    if (key == "location") {
      result.location = entry.value();
    } else if (key == "offset") {
      ASSIGN_OR_RETURN(result.offset_bytes, ParseNumber(key, entry.value()));
    } else {
      ASSIGN_OR_RETURN(result.length_bytes, ParseNumber(key, entry.value()));
    }
  }
  if (result.location.empty()) {
    return absl::InvalidArgumentError("external data has no location");
  }
  return result;
}

absl::StatusOr<ExternalFile> LocateExternalFile(absl::string_view directory,
                                                absl::string_view location) {
  if (location[0] == '/') {
    return BadLocation(location, "is an absolute path");
  }
  if (absl::StrContains(location, absl::string_view("\0", 1))) {
    return BadLocation(location, "holds a zero byte");
  }
  const std::vector<absl::string_view> components =
      absl::StrSplit(location, '/', absl::SkipEmpty());
  for (absl::string_view component : components) {
    if (component == "..") {
      return BadLocation(location, "has \"..\" in it");
    }
  }
  ExternalFile result;
  result.path = absl::StrCat(directory, "/", location);
  std::string path(directory);
  struct stat info;
  for (size_t i = 0; i < components.size(); ++i) {
    absl::StrAppend(&path, "/", components[i]);
    if (lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return result;
      return BadLocation(location, ErrnoMessage(errno));
    }
    if (S_ISLNK(info.st_mode)) {
      return BadLocation(location, "goes through a symbolic link");
    }
    const bool is_last = i + 1 == components.size();
    if (is_last ? !S_ISREG(info.st_mode) : !S_ISDIR(info.st_mode)) {
      return BadLocation(
          location, is_last ? "is not a regular file" : "goes through a file");
    }
  }
  result.size_bytes = info.st_size;
  return result;
}

void SetExternalLocation(absl::string_view location,
                         onnx::TensorProto* tensor) {
  SetValue("location", location, tensor);
}

void SetExternalEntry(absl::string_view location, int64_t offset_bytes,
                      int64_t length_bytes, onnx::TensorProto* tensor) {
  SetExternalLocation(location, tensor);
  SetValue("offset", absl::StrCat(offset_bytes), tensor);
  SetValue("length", absl::StrCat(length_bytes), tensor);
  // A checksum is one of the whole file, which is another one now.
  auto* entries = tensor->mutable_external_data();
  for (int i = entries->size() - 1; i >= 0; --i) {
    if (entries->Get(i).key() == "checksum") entries->DeleteSubrange(i, 1);
  }
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
}

}  // namespace onnx_memopt::io
