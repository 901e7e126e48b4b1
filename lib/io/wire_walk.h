// A walk over the serialized bytes of a ModelProto that checks every message
// and rewrites tensors, without decoding anything else. A caller's function
// sees a summary of each TensorProto and answers with edits; the walk copies
// all other bytes by reference and recomputes the lengths around an edit.
//
// Only tags and lengths are read: the bytes of a long payload are skipped.
//
//   WireOutput out(file);
//   RETURN_IF_ERROR(WalkModel(file, cut_payloads, &out));
//   Write(out.Views());
#ifndef ONNX_MEMOPT_IO_WIRE_WALK_H_
#define ONNX_MEMOPT_IO_WIRE_WALK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "io/wire_schema.h"
#include "llvm/ADT/SmallVector.h"

namespace onnx_memopt::io {

// Deeper subgraphs are an error: every later step recurses over them.
inline constexpr int kMaxNestedGraphs = 32;
// Messages of any kind, nested in each other.
inline constexpr int kMaxNestedMessages = 256;

// Field number of the marker that stands for a cut payload in a TensorProto.
// ONNX numbers its fields from 1 and stays below 100.
inline constexpr uint32_t kMarkerField = 536870001;

// The first field number that TensorSummary does not keep apart.
inline constexpr uint32_t kSummaryFields = 32;

// Where the fields of one TensorProto are; offsets into the walked bytes.
struct TensorSummary {
  struct Occurrences {
    int64_t count = 0;
    size_t begin = 0;        // of the first one's tag
    size_t end = 0;          // of the last one
    size_t value_begin = 0;  // of the last one, after its length
    bool contiguous = true;  // no other field in between
    bool length_delimited = true;
  };
  struct Marker {
    uint64_t payload = 0;
    size_t begin = 0;
    size_t end = 0;
  };

  std::array<Occurrences, kSummaryFields> fields;
  llvm::SmallVector<Marker, 1> markers;
  size_t first_other = 0;  // begin of the first field above; else the end
};

// Replaces [begin, end) by the views in `replacement`.
struct WireEdit {
  size_t begin = 0;
  size_t end = 0;
  llvm::SmallVector<absl::string_view, 2> replacement;
};

using TensorEdits = llvm::SmallVector<WireEdit, 4>;  // sorted, disjoint
using TensorFunction =
    absl::FunctionRef<absl::StatusOr<TensorEdits>(const TensorSummary&)>;

// Views that make up the rewritten bytes, in order. Neighbouring ranges of the
// input are merged.
class WireOutput {
 public:
  explicit WireOutput(absl::string_view input) : input_(input) {}

  void AddInput(size_t begin, size_t end);
  void AddView(absl::string_view view);
  // A place for the length of what follows; EndLength fills it in.
  size_t BeginLength();
  void EndLength(size_t place);

  // To take back what was added since.
  struct Mark {
    size_t pieces = 0;
    size_t last_size = 0;
    size_t total = 0;
    size_t pool = 0;
  };
  Mark Here() const;
  void Rewind(const Mark& mark);

  size_t total() const { return total_; }
  std::vector<absl::string_view> Views() const;

 private:
  struct Piece {
    const char* data = nullptr;  // nullptr: `size` bytes of the pool
    size_t size = 0;
    size_t pool_offset = 0;
    size_t total_before = 0;  // of a length: bytes before what it counts
  };

  absl::string_view input_;
  std::vector<Piece> pieces_;
  std::vector<char> pool_;
  size_t total_ = 0;
};

// Errors say which field, and at which byte.
absl::Status WalkModel(absl::string_view input, TensorFunction edit_tensor,
                       WireOutput* output);

// Appends the base-128 encoding.
void AppendVarint(uint64_t value, std::string* out);
// A field's tag.
void AppendTag(uint32_t number, WireType type, std::string* out);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_WIRE_WALK_H_
