// A model as it was read: the skeleton (see payload_scan.h) as a ModelProto,
// and where the payloads are. Immutable and shared: the IR's weights are views
// of its bytes, and exporting starts from it.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> model,
//                    Load("model.onnx", {}));
//   for (const onnx::TensorProto& t : model->proto().graph().initializer()) {
//     ASSIGN_OR_RETURN(ir::Weight weight, ResolveTensor(*model, t, t.name()));
//   }
//
// Messages do not name the model's file: the caller says "FILE: reason".
#ifndef ONNX_MEMOPT_IO_LOADED_MODEL_H_
#define ONNX_MEMOPT_IO_LOADED_MODEL_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/payload_scan.h"
#include "onnx_memopt/ir/weight.h"
#include "onnx_memopt/support/mapped_file.h"

namespace onnx_memopt::io {

struct AppendOptions;

// From this version of the IR on, a weight is an input only if callers may
// replace it; before it, every one had to be listed.
inline constexpr int64_t kInitializersApart = 4;

struct LoadOptions {
  // What external data locations are relative to. Empty: the model file's
  // folder; for standard input and for models from memory, the current one.
  std::string external_dir;
};

class LoadedModel {
 public:
  // Large payloads are not in here; ResolveTensor finds them.
  const onnx::ModelProto& proto() const { return proto_; }
  // As it was given; "-" for standard input, empty for a model from memory.
  const std::string& path() const { return path_; }
  // What external data locations are relative to; never empty.
  const std::string& directory() const { return directory_; }
  // 0 for a model from memory.
  int64_t file_size_bytes() const { return file_size_bytes_; }
  bool is_text() const { return is_text_; }
  // Of the file's bytes; computed when it is first asked for. An error for a
  // model from memory.
  absl::StatusOr<std::string> Sha256() const;

  absl::Span<const Payload> payloads() const { return payloads_; }
  // The mapped file, if the model was read from one: payloads that lie in its
  // bytes can be copied by the kernel.
  const MappedFile* file() const {
    if (!parts_.empty()) return parts_.front()->file();
    return file_ ? &*file_ : nullptr;
  }
  // Keeps `bytes` as long as this object lives. Equal strings are kept once.
  absl::string_view Intern(std::string bytes) const;

 private:
  friend absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(
      const std::string& path, const LoadOptions& options);
  friend absl::StatusOr<std::shared_ptr<const LoadedModel>> FromProto(
      onnx::ModelProto model, std::string directory);
  friend absl::StatusOr<std::shared_ptr<const LoadedModel>> FromBytes(
      std::string bytes, std::string directory);
  friend absl::StatusOr<std::shared_ptr<const LoadedModel>> AppendModel(
      std::shared_ptr<const LoadedModel> first,
      std::shared_ptr<const LoadedModel> second, const AppendOptions& options);

  LoadedModel() = default;
  // Scans and parses `bytes`, which this object owns already.
  absl::Status ParseBinary(absl::string_view bytes);
  absl::Status ParseText(absl::string_view bytes);
  // Takes over `model`, with its large payloads moved out.
  absl::Status Adopt(onnx::ModelProto model);

  std::string path_;
  std::string directory_;
  int64_t file_size_bytes_ = 0;
  bool is_text_ = false;
  std::optional<MappedFile> file_;
  std::optional<std::string> input_;  // of standard input, or from memory
  std::deque<std::string> moved_;     // payloads of a model from memory
  // Of a model made of two (append_model.h): these own the files.
  std::vector<std::shared_ptr<const LoadedModel>> parts_;
  std::vector<Payload> payloads_;  // views into the four above
  onnx::ModelProto proto_;

  mutable absl::Mutex mutex_;
  mutable std::optional<absl::StatusOr<std::string>> sha256_
      ABSL_GUARDED_BY(mutex_);
  mutable absl::node_hash_set<std::string> interned_ ABSL_GUARDED_BY(mutex_);
};

// Reads .onnx, .onnxtxt (ONNX's text syntax, told by the extension), or "-":
// the binary format on standard input.
absl::StatusOr<std::shared_ptr<const LoadedModel>> Load(
    const std::string& path, const LoadOptions& options);

// A model that the caller has in memory. `directory` is what external data
// locations are relative to; empty: the current directory.
absl::StatusOr<std::shared_ptr<const LoadedModel>> FromProto(
    onnx::ModelProto model, std::string directory);

// The same for a model that is still serialized.
absl::StatusOr<std::shared_ptr<const LoadedModel>> FromBytes(
    std::string bytes, std::string directory);

// Checks a tensor of `model.proto()` and says where its bytes are: its type and
// dims, that it has exactly the data that its shape needs, and, for external
// data, that the location stays in the model's folder. The external file is
// never opened, and may be missing. `name` is for messages, and becomes the
// weight's name. Views in the result live as long as `model`.
absl::StatusOr<ir::Weight> ResolveTensor(const LoadedModel& model,
                                         const onnx::TensorProto& tensor,
                                         absl::string_view name);

// The same for a sparse tensor: kSparse, the dims of the dense tensor, and in
// size_bytes the bytes of the values and indices that it holds.
absl::StatusOr<ir::Weight> ResolveSparseTensor(
    const LoadedModel& model, const onnx::SparseTensorProto& tensor,
    absl::string_view name);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_LOADED_MODEL_H_
