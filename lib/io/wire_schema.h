// What the protobuf wire walk must know of ONNX's messages, as flat tables
// made from the descriptors of the ONNX that is linked: field numbers index
// arrays, and each message knows whether tensors can be below it.
//
//   WireSchema schema;
//   const WireSchema::Field* f = schema.model().Find(7);   // "graph"
#ifndef ONNX_MEMOPT_IO_WIRE_SCHEMA_H_
#define ONNX_MEMOPT_IO_WIRE_SCHEMA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace onnx_memopt::io {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

class WireSchema {
 public:
  struct Message;
  struct Field {
    absl::string_view name;  // empty: no such field
    WireType wire_type = WireType::kVarint;
    bool repeated = false;
    bool packable = false;             // repeated numbers: packed is legal too
    const Message* message = nullptr;  // of a field that holds messages
  };
  enum class Kind : uint8_t { kOther, kGraph, kTensor };
  struct Message {
    Kind kind = Kind::kOther;
    bool holds_tensors = false;  // is a tensor, or has some below it
    std::vector<Field> fields;   // by number

    const Field* Find(uint32_t number) const {
      if (number >= fields.size() || fields[number].name.empty()) {
        return nullptr;
      }
      return &fields[number];
    }
  };

  WireSchema();
  const Message& model() const { return *model_; }

 private:
  using Descriptor = google::protobuf::Descriptor;

  Message* Add(const Descriptor* descriptor);

  absl::flat_hash_map<const Descriptor*, std::unique_ptr<Message>> messages_;
  const Message* model_;
};

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_WIRE_SCHEMA_H_
