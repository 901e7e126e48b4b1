#include "onnx_memopt/io/loaded_model.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "io/text_model.h"
#include "io/wire_walk.h"
#include "onnx_memopt/io/tensor_walk.h"
#include "onnx_memopt/support/sha256.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool LooksLikeText(absl::string_view bytes) {
  const absl::string_view head = bytes.substr(0, 256);
  return std::all_of(head.begin(), head.end(), [](char c) {
    return absl::ascii_isprint(c) || absl::ascii_isspace(c);
  });
}

// A better message than that of the wire walk, for common mistakes.
absl::Status Explain(absl::Status status, absl::string_view bytes) {
  if (absl::StartsWith(bytes, "version https://git-lfs")) {
    return absl::InvalidArgumentError(
        "not an ONNX file: a Git LFS pointer; fetch the file itself with "
        "\"git lfs pull\"");
  }
  if (LooksLikeText(bytes)) {
    return absl::InvalidArgumentError(
        "not an ONNX file: it is text; ONNX's own text syntax is read from "
        "files named .onnxtxt");
  }
  return status;
}

absl::Status TooLargeForProtobuf(absl::string_view size) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the file has ", size,
      "; a protobuf can hold at most 2 GiB: store the weights as external "
      "data"));
}

}  // namespace

absl::Status LoadedModel::ParseBinary(absl::string_view bytes) {
  absl::StatusOr<ScannedModel> scanned = ScanPayloads(bytes, [this] {
    if (file_) file_->DropResident();
  });
  if (!scanned.ok()) return Explain(scanned.status(), bytes);
  google::protobuf::io::CodedInputStream stream(
      reinterpret_cast<const uint8_t*>(scanned->skeleton.data()),
      static_cast<int>(scanned->skeleton.size()));
  stream.SetRecursionLimit(2 * kMaxNestedMessages);
  if (!proto_.ParseFromCodedStream(&stream) ||
      !stream.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError(
        "not an ONNX file: the protobuf does not parse");
  }
  if (!proto_.has_graph()) {
    return Explain(absl::InvalidArgumentError(
                       "not an ONNX file: the protobuf has no graph"),
                   bytes);
  }
  payloads_ = std::move(scanned->payloads);
  return absl::OkStatus();
}

absl::Status LoadedModel::ParseText(absl::string_view bytes) {
  ASSIGN_OR_RETURN(onnx::ModelProto model, ParseModelText(bytes));
  return Adopt(std::move(model));
}

absl::Status LoadedModel::Adopt(onnx::ModelProto model) {
  proto_ = std::move(model);
  if (!proto_.has_graph()) {
    return absl::InvalidArgumentError("the model has no graph");
  }
  return ForEachMutableTensor(
      &proto_,
      [&](onnx::TensorProto* tensor, const TensorPlace& place) -> absl::Status {
        if (HasMarker(*tensor)) {
          return absl::InvalidArgumentError(absl::StrCat(
              "tensor \"", place.name, "\" has field #", kMarkerField,
              ", a number that this program reserves"));
        }
        if (static_cast<int64_t>(tensor->raw_data().size()) <=
            kMinPayloadBytes) {
          return absl::OkStatus();
        }
        moved_.push_back(std::move(*tensor->mutable_raw_data()));
        tensor->clear_raw_data();
        SetMarker(payloads_.size(), tensor);
        payloads_.push_back(
            {.field_number = onnx::TensorProto::kRawDataFieldNumber,
             .bytes = moved_.back()});
        return absl::OkStatus();
      });
}

absl::StatusOr<std::string> LoadedModel::Sha256() const {
  if (!parts_.empty()) return parts_.front()->Sha256();
  absl::MutexLock lock(&mutex_);
  if (!sha256_.has_value()) {
    if (file_.has_value()) {
      sha256_ = Sha256HexOfFile(file_->fd());
    } else if (input_.has_value()) {
      sha256_ = Sha256Hex(*input_);
    } else {
      sha256_ =
          absl::FailedPreconditionError("the model was not read from a file");
    }
  }
  return *sha256_;
}

absl::string_view LoadedModel::Intern(std::string bytes) const {
  absl::MutexLock lock(&mutex_);
  return *interned_.insert(std::move(bytes)).first;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(
    const std::string& path, const LoadOptions& options) {
  // make_shared cannot use the private constructor.
  std::shared_ptr<LoadedModel> model(new LoadedModel());
  model->path_ = path;
  model->directory_ = options.external_dir;
  if (path == "-") {
    if (model->directory_.empty()) model->directory_.push_back('.');
    absl::StatusOr<std::string> input =
        ReadToEnd(STDIN_FILENO, kMaxProtobufBytes);
    if (absl::IsOutOfRange(input.status())) {
      return TooLargeForProtobuf("2 GiB or more");
    }
    if (!input.ok()) return input.status();
    if (input->empty()) return absl::InvalidArgumentError("empty file");
    model->input_ = *std::move(input);
    model->file_size_bytes_ = static_cast<int64_t>(model->input_->size());
    RETURN_IF_ERROR(model->ParseBinary(*model->input_));
    return model;
  }
  if (model->directory_.empty()) model->directory_ = FolderOf(path);
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, kMaxProtobufBytes);
  if (absl::IsOutOfRange(file.status())) {
    return TooLargeForProtobuf("2 GiB or more");
  }
  if (!file.ok()) return file.status();
  model->file_ = *std::move(file);
  const absl::string_view bytes = model->file_->bytes();
  model->file_size_bytes_ = static_cast<int64_t>(bytes.size());
  model->is_text_ = IsTextPath(path);
  RETURN_IF_ERROR(model->is_text_ ? model->ParseText(bytes)
                                  : model->ParseBinary(bytes));
  model->file_->DropResident();
  return model;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> FromProto(
    onnx::ModelProto model, std::string directory) {
  std::shared_ptr<LoadedModel> loaded(new LoadedModel());
  if (directory.empty()) directory.push_back('.');
  loaded->directory_ = std::move(directory);
  RETURN_IF_ERROR(loaded->Adopt(std::move(model)));
  return loaded;
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> FromBytes(
    std::string bytes, std::string directory) {
  if (bytes.empty()) return absl::InvalidArgumentError("empty file");
  if (bytes.size() > static_cast<size_t>(kMaxProtobufBytes)) {
    return TooLargeForProtobuf("2 GiB or more");
  }
  std::shared_ptr<LoadedModel> loaded(new LoadedModel());
  if (directory.empty()) directory.push_back('.');
  loaded->directory_ = std::move(directory);
  loaded->input_ = std::move(bytes);
  RETURN_IF_ERROR(loaded->ParseBinary(*loaded->input_));
  return loaded;
}

}  // namespace onnx_memopt::io
