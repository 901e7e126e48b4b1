// All payloads of a model that is being written: those of its source, then
// weights that a pass made. The bytes of the latter are nowhere yet: a view of
// reserved addresses, which nobody may read, stands for each of them until it
// is written.
//
//   ASSIGN_OR_RETURN(auto table, PayloadTable::Create(source, made));
//   ASSIGN_OR_RETURN(auto model, SplicePayloads(text, table.payloads()));
//   for (absl::string_view segment : model.segments)
//     if (const ir::Weight* weight = table.StandsFor(segment)) ...
#ifndef ONNX_MEMOPT_LIB_IO_PAYLOAD_TABLE_H_
#define ONNX_MEMOPT_LIB_IO_PAYLOAD_TABLE_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/io/payload_scan.h"
#include "onnx_memopt/ir/weight.h"
#include "onnx_memopt/ir/weight_reader.h"

namespace onnx_memopt::io {

class PayloadTable {
 public:
  // `made`: where markers beyond the source's payloads lead, in their order.
  static absl::StatusOr<PayloadTable> Create(const LoadedModel& source,
                                             absl::Span<const ir::Weight> made);
  PayloadTable(PayloadTable&& other) noexcept;
  PayloadTable& operator=(PayloadTable&& other) = delete;
  ~PayloadTable();

  absl::Span<const Payload> payloads() const { return payloads_; }
  absl::Span<const ir::Weight> made() const { return made_; }
  // The weight that a segment of a spliced model stands for; nullptr: it is
  // bytes.
  const ir::Weight* StandsFor(absl::string_view segment) const;
  // The weight that a tensor's marker leads to; nullptr: none that was made.
  absl::StatusOr<const ir::Weight*> MadeFor(
      const onnx::TensorProto& tensor) const;

 private:
  PayloadTable() = default;

  std::vector<Payload> payloads_;
  absl::Span<const ir::Weight> made_;
  std::map<const char*, const ir::Weight*> stand_ins_;
  void* reserved_ = nullptr;
  size_t reserved_bytes_ = 0;
};

// The weight's elements as raw_data holds them, in pieces, from wherever they
// are. Memory of the source that became resident is given back.
absl::Status VisitMade(
    const LoadedModel& source, const ir::Weight& weight,
    ir::WeightReader* reader,
    absl::FunctionRef<absl::Status(absl::string_view)> visit);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_PAYLOAD_TABLE_H_
