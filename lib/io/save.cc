#include "onnx_memopt/io/save.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "io/data_file.h"
#include "io/external_data.h"
#include "io/payload_table.h"
#include "io/text_model.h"
#include "onnx_memopt/io/payload_splice.h"
#include "onnx_memopt/io/tensor_walk.h"
#include "onnx_memopt/support/atomic_file.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// A file that exists, whatever it is called.
using FileId = std::pair<dev_t, ino_t>;

std::optional<FileId> Identify(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileId(info.st_dev, info.st_ino);
}

bool IsSameFile(const std::string& a, const std::string& b) {
  const std::optional<FileId> id = Identify(a);
  return id.has_value() && id == Identify(b);
}

absl::StatusOr<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(
      realpath(path.c_str(), nullptr), &std::free);
  if (real == nullptr) return ErrnoStatus(errno);
  return std::string(real.get());
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string NameOf(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Without empty and "." components.
std::string NormalLocation(absl::string_view location) {
  return absl::StrJoin(absl::StrSplit(location, '/',
                                      [](absl::string_view part) {
                                        return !part.empty() && part != ".";
                                      }),
                       "/");
}

// The state of one Save.
class Saver {
 public:
  Saver(const onnx::ModelProto& skeleton, const LoadedModel& source,
        std::string path, SaveOptions options, PayloadTable payloads)
      : skeleton_(skeleton),
        source_(source),
        payloads_(std::move(payloads)),
        path_(std::move(path)),
        options_(std::move(options)),
        to_stdout_(path_ == "-"),
        data_(NameOf(path_) + ".data") {}

  absl::StatusOr<SaveResult> Run();
  absl::StatusOr<std::string> ToString();

 private:
  absl::Status CollectExternal();
  absl::Status ApplyMode(ExternalData mode);
  absl::Status RewriteReferences();
  // Gives tensors that a pass made their bytes, for the text syntax.
  absl::Status FillMade();
  absl::Status Serialize();
  absl::Status CheckTargets() const;
  absl::StatusOr<SaveResult> Write();
  absl::StatusOr<int64_t> WriteModel(FileWriter* out) const;

  const onnx::ModelProto& model() const {
    return edited_.has_value() ? *edited_ : skeleton_;
  }
  onnx::ModelProto* mutable_model() {
    if (!edited_.has_value()) edited_ = skeleton_;
    return &*edited_;
  }

  const onnx::ModelProto& skeleton_;
  const LoadedModel& source_;
  const PayloadTable payloads_;
  const std::string path_;
  const SaveOptions options_;
  const bool to_stdout_;

  bool same_folder_ = false;
  bool makes_external_ = false;              // something from external data
  std::vector<std::string> external_paths_;  // in use by the skeleton
  std::optional<onnx::ModelProto> edited_;
  DataFile data_;
  bool has_data_file_ = false;

  std::string text_;      // serialized: text, or the skeleton
  SplicedModel spliced_;  // of the skeleton
};

absl::Status Saver::CollectExternal() {
  std::set<std::string> paths;
  for (const ir::Weight& weight : payloads_.made()) {
    if (weight.storage != ir::WeightStorage::kExternal) continue;
    paths.insert(weight.external.path);
    makes_external_ = true;
  }
  RETURN_IF_ERROR(ForEachTensor(
      skeleton_,
      [&](const onnx::TensorProto& tensor,
          const TensorPlace& place) -> absl::Status {
        if (!IsExternal(tensor)) return absl::OkStatus();
        ASSIGN_OR_RETURN(const ir::Weight weight,
                         ResolveTensor(source_, tensor, place.name));
        paths.insert(weight.external.path);
        return absl::OkStatus();
      }));
  external_paths_.assign(paths.begin(), paths.end());
  return absl::OkStatus();
}

absl::Status Saver::RewriteReferences() {
  if (external_paths_.empty() || same_folder_ || to_stdout_) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string from, RealPath(source_.directory()));
  ASSIGN_OR_RETURN(const std::string to, RealPath(FolderOf(path_)));
  const std::string below = to == "/" ? to : absl::StrCat(to, "/");
  return ForEachMutableTensor(
      mutable_model(),
      [&](onnx::TensorProto* tensor, const TensorPlace& place) -> absl::Status {
        if (!IsExternal(*tensor)) return absl::OkStatus();
        ASSIGN_OR_RETURN(const ExternalEntry entry,
                         ParseExternalEntry(*tensor));
        const std::string target = absl::StrCat(from == "/" ? "" : from, "/",
                                                NormalLocation(entry.location));
        if (!absl::StartsWith(target, below)) {
          return absl::FailedPreconditionError(absl::StrCat(
              "tensor \"", Printable(place.name), "\": external data \"",
              Printable(entry.location),
              "\" is not below the output's folder; copy the external data "
              "instead of referring to it"));
        }
        SetExternalLocation(target.substr(below.size()), tensor);
        return absl::OkStatus();
      });
}

absl::Status Saver::ApplyMode(ExternalData mode) {
  edited_.reset();
  data_ = DataFile(NameOf(path_) + ".data");
  has_data_file_ = false;
  if (mode == ExternalData::kReference) return RewriteReferences();
  if (to_stdout_) {
    return absl::InvalidArgumentError(
        "external data cannot be written beside standard output; name a file");
  }
  if (mode == ExternalData::kCopy && external_paths_.empty()) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(data_.Plan(source_, payloads_,
                             /*move_inline=*/mode == ExternalData::kAll,
                             mutable_model()));
  has_data_file_ = !data_.empty();
  return absl::OkStatus();
}

absl::Status Saver::FillMade() {
  if (payloads_.made().empty()) return absl::OkStatus();
  ir::WeightReader reader;
  return ForEachMutableTensor(
      mutable_model(),
      [&](onnx::TensorProto* tensor, const TensorPlace&) -> absl::Status {
        ASSIGN_OR_RETURN(const ir::Weight* made, payloads_.MadeFor(*tensor));
        if (made == nullptr) return absl::OkStatus();
        ClearMarker(tensor);
        return VisitMade(source_, *made, &reader, [&](absl::string_view bytes) {
          tensor->mutable_raw_data()->append(bytes.data(), bytes.size());
          return absl::OkStatus();
        });
      });
}

absl::Status Saver::Serialize() {
  if (IsTextPath(path_)) {
    RETURN_IF_ERROR(FillMade());
    RETURN_IF_ERROR(ForEachTensor(
        model(),
        [](const onnx::TensorProto& tensor,
           const TensorPlace& place) -> absl::Status {
          if (!HasMarker(tensor)) return absl::OkStatus();
          return absl::InvalidArgumentError(
              absl::StrCat("tensor \"", Printable(place.name),
                           "\" is too large for the text syntax; write .onnx"));
        }));
    ASSIGN_OR_RETURN(text_, PrintModelText(model()));
    spliced_ = {.segments = {text_},
                .size_bytes = static_cast<int64_t>(text_.size()),
                .owner = nullptr};
    return absl::OkStatus();
  }
  text_.clear();
  if (model().ByteSizeLong() > static_cast<size_t>(kMaxProtobufBytes) ||
      !model().SerializePartialToString(&text_)) {
    // Only a model from memory can have this much in typed fields.
    return absl::OutOfRangeError("the protobuf would have more than 2 GiB");
  }
  ASSIGN_OR_RETURN(spliced_, SplicePayloads(text_, payloads_.payloads()));
  if (spliced_.size_bytes > options_.max_protobuf_bytes) {
    return absl::OutOfRangeError(
        absl::StrCat("the protobuf would have ", spliced_.size_bytes,
                     " bytes, at most ", options_.max_protobuf_bytes,
                     " are possible; move the weights to external data"));
  }
  return absl::OkStatus();
}

// Neither output may replace a file that a model other than the one being
// written needs.
absl::Status Saver::CheckTargets() const {
  if (to_stdout_) return absl::OkStatus();
  const bool in_place =
      !source_.path().empty() && IsSameFile(path_, source_.path());
  for (const std::string& external : external_paths_) {
    if (IsSameFile(path_, external)) {
      return absl::FailedPreconditionError(
          absl::StrCat("is the source model's external data file \"",
                       Printable(external), "\""));
    }
    if (has_data_file_ && !in_place && IsSameFile(path_ + ".data", external)) {
      return absl::FailedPreconditionError(
          absl::StrCat("its data file would replace the source model's, \"",
                       Printable(external), "\"; choose another name"));
    }
  }
  if (has_data_file_ && !source_.path().empty() &&
      IsSameFile(path_ + ".data", source_.path())) {
    return absl::FailedPreconditionError(
        "its data file would replace the source model; choose another name");
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Saver::WriteModel(FileWriter* out) const {
  ir::WeightReader reader;
  for (absl::string_view segment : spliced_.segments) {
    const ir::Weight* made = payloads_.StandsFor(segment);
    RETURN_IF_ERROR(made == nullptr ? WriteView(source_, segment, out)
                                    : VisitMade(source_, *made, &reader,
                                                [&](absl::string_view bytes) {
                                                  return out->Append(bytes);
                                                }));
    if (made != nullptr && options_.drop_resident) options_.drop_resident();
  }
  RETURN_IF_ERROR(out->Flush());
  return out->position();
}

absl::StatusOr<SaveResult> Saver::Write() {
  SaveResult result;
  if (to_stdout_) {
    FileWriter out(STDOUT_FILENO);
    ASSIGN_OR_RETURN(result.model_bytes, WriteModel(&out));
    return result;
  }
  ASSIGN_OR_RETURN(AtomicFile model_file, AtomicFile::Create(path_));
  if (has_data_file_) {
    const std::string data_path = path_ + ".data";
    const auto named = [&](const absl::Status& status) {
      return status.ok() ? status
                         : absl::Status(status.code(),
                                        absl::StrCat("\"", Printable(data_path),
                                                     "\": ", status.message()));
    };
    absl::StatusOr<AtomicFile> data_file = AtomicFile::Create(data_path);
    RETURN_IF_ERROR(named(data_file.status()));
    ASSIGN_OR_RETURN(const mode_t mode, model_file.Mode());
    RETURN_IF_ERROR(named(data_file->SetMode(mode)));
    RETURN_IF_ERROR(named(
        data_.Write(source_, options_.drop_resident, &data_file->writer())));
    RETURN_IF_ERROR(named(data_file->Finish()));
    ASSIGN_OR_RETURN(result.model_bytes, WriteModel(&model_file.writer()));
    result.data_bytes = data_file->writer().position();
    // A model whose data is not there yet is worse than data without a model.
    RETURN_IF_ERROR(named(data_file->Commit()));
    result.files.push_back(data_path);
  } else {
    ASSIGN_OR_RETURN(result.model_bytes, WriteModel(&model_file.writer()));
  }
  RETURN_IF_ERROR(model_file.Commit());
  result.files.push_back(path_);
  return result;
}

absl::StatusOr<SaveResult> Saver::Run() {
  same_folder_ =
      !to_stdout_ && IsSameFile(FolderOf(path_), source_.directory());
  RETURN_IF_ERROR(CollectExternal());
  ExternalData mode = options_.external_data;
  if (mode == ExternalData::kAuto) {
    mode = external_paths_.empty() || to_stdout_ ||
                   (same_folder_ && !makes_external_)
               ? ExternalData::kReference
               : ExternalData::kCopy;
  }
  RETURN_IF_ERROR(ApplyMode(mode));
  absl::Status status = Serialize();
  if (absl::IsOutOfRange(status) &&
      options_.external_data == ExternalData::kAuto && !to_stdout_) {
    RETURN_IF_ERROR(ApplyMode(ExternalData::kAll));
    status = Serialize();
  }
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(CheckTargets());
  return Write();
}

absl::StatusOr<std::string> Saver::ToString() {
  RETURN_IF_ERROR(CollectExternal());
  RETURN_IF_ERROR(Serialize());
  std::string bytes;
  bytes.reserve(static_cast<size_t>(spliced_.size_bytes));
  ir::WeightReader reader;
  const auto append = [&](absl::string_view part) {
    bytes.append(part.data(), part.size());
    return absl::OkStatus();
  };
  for (absl::string_view segment : spliced_.segments) {
    const ir::Weight* made = payloads_.StandsFor(segment);
    RETURN_IF_ERROR(made == nullptr
                        ? append(segment)
                        : VisitMade(source_, *made, &reader, append));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<SaveResult> Save(const onnx::ModelProto& skeleton,
                                const LoadedModel& source,
                                const std::string& path,
                                const SaveOptions& options) {
  ASSIGN_OR_RETURN(PayloadTable payloads,
                   PayloadTable::Create(source, options.made));
  return Saver(skeleton, source, path, options, std::move(payloads)).Run();
}

absl::StatusOr<std::string> SaveToString(const onnx::ModelProto& skeleton,
                                         const LoadedModel& source,
                                         absl::Span<const ir::Weight> made) {
  ASSIGN_OR_RETURN(PayloadTable payloads, PayloadTable::Create(source, made));
  return Saver(skeleton, source, "", {}, std::move(payloads)).ToString();
}

}  // namespace onnx_memopt::io
