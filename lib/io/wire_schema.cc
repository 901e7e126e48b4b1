#include "io/wire_schema.h"

#include "google/protobuf/wire_format_lite.h"
#include "onnx/onnx_pb.h"

namespace onnx_memopt::io {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

WireType WireTypeOf(const FieldDescriptor& field) {
  return static_cast<WireType>(WireFormatLite::WireTypeForFieldType(
      static_cast<WireFormatLite::FieldType>(field.type())));
}

}  // namespace

WireSchema::WireSchema() {
  model_ = Add(onnx::ModelProto::descriptor());
  // Messages refer to each other in cycles, so this takes a few rounds.
  bool changed = true;
  while (changed) {
    changed = false;
    for (auto& [descriptor, message] : messages_) {
      if (message->holds_tensors) continue;
      for (const Field& field : message->fields) {
        if (field.message == nullptr || !field.message->holds_tensors) continue;
        message->holds_tensors = true;
        changed = true;
      }
    }
  }
}

WireSchema::Message* WireSchema::Add(const Descriptor* descriptor) {
  std::unique_ptr<Message>& slot = messages_[descriptor];
  if (slot != nullptr) return slot.get();
  slot = std::make_unique<Message>();
  Message* message = slot.get();  // `slot` moves when the map grows
  if (descriptor == onnx::GraphProto::descriptor()) {
    message->kind = Kind::kGraph;
  } else if (descriptor == onnx::TensorProto::descriptor()) {
    message->kind = Kind::kTensor;
    message->holds_tensors = true;
  }
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor& source = *descriptor->field(i);
    const size_t number = static_cast<size_t>(source.number());
    if (number >= message->fields.size()) message->fields.resize(number + 1);
    Field field;
    field.name = absl::string_view(source.name());
    field.wire_type = WireTypeOf(source);
    field.repeated = source.is_repeated();
    field.packable = source.is_packable();
    if (source.message_type() != nullptr) {
      field.message = Add(source.message_type());
    }
    message->fields[number] = field;
  }
  return message;
}

}  // namespace onnx_memopt::io
