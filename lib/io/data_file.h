// The external data file of a model that is being written: which bytes go
// where. Planning changes the model's locations; writing happens later, so that
// nothing is written for a model that cannot be saved.
//
//   DataFile data("out.onnx.data");
//   RETURN_IF_ERROR(data.Plan(source, /*move_inline=*/false, &model));
//   if (!data.empty()) RETURN_IF_ERROR(data.Write(&writer));
#ifndef ONNX_MEMOPT_IO_DATA_FILE_H_
#define ONNX_MEMOPT_IO_DATA_FILE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/payload_table.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/weight.h"
#include "onnx_memopt/support/file_writer.h"
#include "onnx_memopt/support/unique_fd.h"

namespace onnx_memopt::io {

class DataFile {
 public:
  // `location` is the file's name, relative to the model that refers to it.
  explicit DataFile(std::string location) : location_(std::move(location)) {}

  // Makes every external tensor of `model` refer to this file, in order of
  // appearance, as initializers that are made from external data do. With
  // `move_inline`, initializers of kMinPayloadBytes and more become external
  // too. Opens the files that ranges are copied from.
  absl::Status Plan(const LoadedModel& source, const PayloadTable& payloads,
                    bool move_inline, onnx::ModelProto* model);

  bool empty() const { return entries_.empty(); }
  // Paths of the files that ranges are copied from.
  std::vector<std::string> SourcePaths() const;
  // `drop_resident` as in SaveOptions.
  absl::Status Write(const LoadedModel& source,
                     const std::function<void()>& drop_resident,
                     FileWriter* out) const;

 private:
  struct Entry {
    ir::Weight weight;
    int64_t offset_bytes = 0;
    bool is_made = false;
  };

  absl::Status PlanExternal(const LoadedModel& source, absl::string_view name,
                            onnx::TensorProto* tensor);
  absl::Status PlanInline(const LoadedModel& source, absl::string_view name,
                          onnx::TensorProto* tensor);
  absl::Status PlanMade(const ir::Weight& weight, onnx::TensorProto* tensor);
  // A place for the weight's bytes.
  absl::Status Allocate(ir::Weight weight, bool is_made, int64_t* offset_bytes);

  std::string location_;
  int64_t end_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, UniqueFd> sources_;
  std::map<std::tuple<std::string, int64_t, int64_t>, int64_t> placed_;
};

// Copies a view of the source's bytes: by the kernel if it lies in the mapped
// file and is long.
absl::Status WriteView(const LoadedModel& source, absl::string_view bytes,
                       FileWriter* out);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_DATA_FILE_H_
