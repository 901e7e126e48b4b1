#include "rewrite/large_bytes.h"

#include <functional>
#include <utility>

#include "absl/status/statusor.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr int64_t kHeldBytes = int64_t{8} << 20;

struct Owners {
  std::shared_ptr<const void> before;
  std::shared_ptr<const ScratchFile> file;
};

}  // namespace

absl::string_view LargeBytes::Own(std::string bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  if (held_bytes_ + size > kHeldBytes && size > 0) {
    if (!is_opened_) Open();
    if (file_ != nullptr) {
      const absl::StatusOr<absl::string_view> view = file_->Append(bytes);
      if (view.ok()) return *view;
    }
  }
  held_bytes_ += size;
  return graph_.OwnBytes(std::move(bytes));
}

void LargeBytes::Open() {
  is_opened_ = true;
  absl::StatusOr<ScratchFile> file = ScratchFile::Create();
  if (!file.ok()) return;
  file_ = std::make_shared<ScratchFile>(*std::move(file));
  graph_.payload_owner =
      std::make_shared<Owners>(Owners{graph_.payload_owner, file_});
  graph_.drop_resident = [before = std::move(graph_.drop_resident),
                          file = file_] {
    if (before) before();
    file->DropResident();
  };
}

}  // namespace onnx_memopt::rewrite
