#include "io/payload_table.h"

#include <sys/mman.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/io/tensor_values.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {

absl::StatusOr<PayloadTable> PayloadTable::Create(
    const LoadedModel& source, absl::Span<const ir::Weight> made) {
  PayloadTable table;
  table.made_ = made;
  table.payloads_.assign(source.payloads().begin(), source.payloads().end());
  if (made.empty()) return table;
  int64_t total = 0;
  for (const ir::Weight& weight : made) {
    // A byte at least for each, so that addresses differ.
    const std::optional<int64_t> sum = CheckedAdd(total, weight.size_bytes + 1);
    if (!sum) return absl::ResourceExhaustedError("the weights are too large");
    total = *sum;
  }
  table.reserved_bytes_ = static_cast<size_t>(total);
  void* reserved = mmap(nullptr, table.reserved_bytes_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return ErrnoStatus(errno);
  table.reserved_ = reserved;
  const char* at = static_cast<const char*>(reserved);
  for (const ir::Weight& weight : made) {
    table.stand_ins_.emplace(at, &weight);
    table.payloads_.push_back(
        {.field_number = onnx::TensorProto::kRawDataFieldNumber,
         .bytes = {at, static_cast<size_t>(weight.size_bytes)}});
    at += weight.size_bytes + 1;
  }
  return table;
}

PayloadTable::PayloadTable(PayloadTable&& other) noexcept
    : payloads_(std::move(other.payloads_)),
      made_(other.made_),
      stand_ins_(std::move(other.stand_ins_)),
      reserved_(std::exchange(other.reserved_, nullptr)),
      reserved_bytes_(other.reserved_bytes_) {}

PayloadTable::~PayloadTable() {
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

const ir::Weight* PayloadTable::StandsFor(absl::string_view segment) const {
  const auto it = stand_ins_.find(segment.data());
  return it == stand_ins_.end() ? nullptr : it->second;
}

absl::StatusOr<const ir::Weight*> PayloadTable::MadeFor(
    const onnx::TensorProto& tensor) const {
  ASSIGN_OR_RETURN(const Payload* payload, FindPayload(tensor, payloads_));
  return payload == nullptr ? nullptr : StandsFor(payload->bytes);
}

absl::Status VisitMade(
    const LoadedModel& source, const ir::Weight& weight,
    ir::WeightReader* reader,
    absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  int64_t size = 0;
  const auto count = [&](absl::string_view bytes) {
    size += static_cast<int64_t>(bytes.size());
    return visit(bytes);
  };
  RETURN_IF_ERROR(weight.storage == ir::WeightStorage::kExternal
                      ? reader->Visit(weight, count)
                      : VisitRawBytes(weight, count));
  if (source.file() != nullptr) source.file()->DropResident();
  if (size == weight.size_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("tensor \"", Printable(weight.name),
                                          "\" took ", size, " bytes, expected ",
                                          weight.size_bytes));
}

}  // namespace onnx_memopt::io
