#include "io/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/external_data.h"
#include "io/tensor_fields.h"
#include "onnx_memopt/io/tensor_values.h"
#include "onnx_memopt/io/tensor_walk.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// Large tensors begin on a page, so that runtimes can map them.
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kSmallAlignment = 64;

absl::Status ForTensor(absl::string_view name, absl::string_view path,
                       const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat("tensor \"", Printable(name), "\": external data file \"",
                   Printable(path), "\": ", status.message()));
}

void ClearInline(onnx::TensorProto* tensor) {
  ClearMarker(tensor);
  tensor->clear_raw_data();
  tensor->clear_float_data();
  tensor->clear_int32_data();
  tensor->clear_int64_data();
  tensor->clear_double_data();
  tensor->clear_uint64_data();
}

}  // namespace

absl::Status DataFile::Plan(const LoadedModel& source,
                            const PayloadTable& payloads, bool move_inline,
                            onnx::ModelProto* model) {
  return ForEachMutableTensor(
      model,
      [&](onnx::TensorProto* tensor, const TensorPlace& place) -> absl::Status {
        // The name may be a view into the tensor.
        const std::string name(place.name);
        if (IsExternal(*tensor)) return PlanExternal(source, name, tensor);
        ASSIGN_OR_RETURN(const ir::Weight* made, payloads.MadeFor(*tensor));
        if (made != nullptr) {
          const bool from_external =
              made->storage == ir::WeightStorage::kExternal;
          return place.is_initializer && (move_inline || from_external)
                     ? PlanMade(*made, tensor)
                     : absl::OkStatus();
        }
        if (move_inline && place.is_initializer) {
          return PlanInline(source, name, tensor);
        }
        return absl::OkStatus();
      });
}

absl::Status DataFile::PlanExternal(const LoadedModel& source,
                                    absl::string_view name,
                                    onnx::TensorProto* tensor) {
  ASSIGN_OR_RETURN(ir::Weight weight, ResolveTensor(source, *tensor, name));
  const std::string path = weight.external.path;
  UniqueFd& fd = sources_[path];
  if (!fd.valid()) {
    fd = UniqueFd(
        open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd.valid() && errno == ENOENT) {
      return ForTensor(
          name, path,
          absl::NotFoundError("does not exist; say where it is with "
                              "--external-dir, or refer to it with "
                              "--external-data reference"));
    }
    if (!fd.valid()) return ForTensor(name, path, ErrnoStatus(errno));
  }
  // ResolveTensor has checked the path; the open file is what counts.
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return ForTensor(name, path, ErrnoStatus(errno));
  }
  const ir::ExternalRange& range = weight.external;
  const std::optional<int64_t> end =
      CheckedAdd(range.offset_bytes, range.length_bytes);
  if (!S_ISREG(info.st_mode) || !end.has_value() || *end > info.st_size) {
    return ForTensor(name, path,
                     absl::DataLossError("is shorter than the tensor needs"));
  }
  const auto key = std::tuple(path, range.offset_bytes, range.length_bytes);
  int64_t offset = 0;
  if (const auto it = placed_.find(key); it != placed_.end()) {
    offset = it->second;
  } else {
    RETURN_IF_ERROR(Allocate(std::move(weight), /*is_made=*/false, &offset));
    placed_.emplace(key, offset);
  }
  SetExternalEntry(location_, offset, std::get<2>(key), tensor);
  return absl::OkStatus();
}

absl::Status DataFile::PlanInline(const LoadedModel& source,
                                  absl::string_view name,
                                  onnx::TensorProto* tensor) {
  ASSIGN_OR_RETURN(ir::Weight weight, ResolveTensor(source, *tensor, name));
  if (!HasRawForm(weight) || weight.size_bytes < kMinPayloadBytes) {
    return absl::OkStatus();
  }
  // The weight may be a view of fields that are cleared below.
  const bool in_table =
      HasMarker(*tensor) || weight.storage == ir::WeightStorage::kTyped;
  if (!in_table) {
    weight.bytes =
        source.Intern(std::string(weight.bytes.data(), weight.bytes.size()));
  }
  const int64_t size = weight.size_bytes;
  int64_t offset = 0;
  RETURN_IF_ERROR(Allocate(std::move(weight), /*is_made=*/false, &offset));
  ClearInline(tensor);
  tensor->clear_external_data();
  SetExternalEntry(location_, offset, size, tensor);
  return absl::OkStatus();
}

absl::Status DataFile::PlanMade(const ir::Weight& weight,
                                onnx::TensorProto* tensor) {
  int64_t offset = 0;
  RETURN_IF_ERROR(Allocate(weight, /*is_made=*/true, &offset));
  ClearInline(tensor);
  SetExternalEntry(location_, offset, weight.size_bytes, tensor);
  return absl::OkStatus();
}

absl::Status DataFile::Allocate(ir::Weight weight, bool is_made,
                                int64_t* offset_bytes) {
  const int64_t size = weight.size_bytes;
  const int64_t alignment = size >= kPageBytes ? kPageBytes : kSmallAlignment;
  const std::optional<int64_t> aligned = CheckedAdd(end_, alignment - 1);
  const std::optional<int64_t> end =
      aligned.has_value() ? CheckedAdd(*aligned / alignment * alignment, size)
                          : std::nullopt;
  if (!end.has_value()) {
    return absl::ResourceExhaustedError("the external data is too large");
  }
  *offset_bytes = *end - size;
  end_ = *end;
  entries_.push_back({std::move(weight), *offset_bytes, is_made});
  return absl::OkStatus();
}

std::vector<std::string> DataFile::SourcePaths() const {
  std::vector<std::string> paths;
  paths.reserve(sources_.size());
  for (const auto& [path, fd] : sources_) paths.push_back(path);
  return paths;
}

absl::Status DataFile::Write(const LoadedModel& source,
                             const std::function<void()>& drop_resident,
                             FileWriter* out) const {
  ir::WeightReader reader;
  for (const Entry& entry : entries_) {
    const ir::Weight& weight = entry.weight;
    const int64_t alignment =
        weight.size_bytes >= kPageBytes ? kPageBytes : kSmallAlignment;
    RETURN_IF_ERROR(out->PadTo(alignment));
    if (entry.is_made) {
      RETURN_IF_ERROR(VisitMade(
          source, weight, &reader,
          [&](absl::string_view bytes) { return out->Append(bytes); }));
      if (drop_resident) drop_resident();
    } else if (weight.storage == ir::WeightStorage::kExternal) {
      const ir::ExternalRange& range = weight.external;
      const absl::Status copied =
          out->CopyFrom(sources_.at(range.path).get(), range.offset_bytes,
                        range.length_bytes);
      if (absl::IsDataLoss(copied)) {
        return ForTensor(weight.name, range.path, copied);
      }
      RETURN_IF_ERROR(copied);
    } else if (weight.storage == ir::WeightStorage::kRaw) {
      RETURN_IF_ERROR(WriteView(source, weight.bytes, out));
    } else {
      RETURN_IF_ERROR(VisitRawBytes(
          weight, [&](absl::string_view bytes) { return out->Append(bytes); }));
    }
    if (out->position() != entry.offset_bytes + weight.size_bytes) {
      return absl::InternalError(
          absl::StrCat("tensor \"", Printable(weight.name), "\" took ",
                       out->position() - entry.offset_bytes,
                       " bytes, expected ", weight.size_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteView(const LoadedModel& source, absl::string_view bytes,
                       FileWriter* out) {
  constexpr size_t kLong = size_t{1} << 16;
  if (source.file() != nullptr && bytes.size() >= kLong) {
    const absl::string_view file = source.file()->bytes();
    // Orders pointers of different arrays too.
    const std::less_equal<> ordered;
    if (ordered(file.data(), bytes.data()) &&
        ordered(bytes.data() + bytes.size(), file.data() + file.size())) {
      return out->CopyFrom(source.file()->fd(), bytes.data() - file.data(),
                           static_cast<int64_t>(bytes.size()));
    }
  }
  return out->Append(bytes);
}

}  // namespace onnx_memopt::io
