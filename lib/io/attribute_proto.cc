#include "io/attribute_proto.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace onnx_memopt::io {

ir::AttributeValue FromAttributeProto(const onnx::AttributeProto& proto) {
  switch (proto.type()) {
    case onnx::AttributeProto::INT:
      return static_cast<int64_t>(proto.i());
    case onnx::AttributeProto::FLOAT:
      return proto.f();
    case onnx::AttributeProto::STRING:
      return proto.s();
    case onnx::AttributeProto::INTS:
      return std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    case onnx::AttributeProto::FLOATS:
      return std::vector<float>(proto.floats().begin(), proto.floats().end());
    case onnx::AttributeProto::STRINGS:
      return std::vector<std::string>(proto.strings().begin(),
                                      proto.strings().end());
    default:
      return ir::OpaqueAttribute{};
  }
}

absl::Status ToAttributeProto(const ir::Attribute& attribute,
                              onnx::AttributeProto* proto) {
  proto->set_name(attribute.name);
  const ir::AttributeValue& value = attribute.value;
  if (const auto* i = std::get_if<int64_t>(&value)) {
    proto->set_type(onnx::AttributeProto::INT);
    proto->set_i(*i);
  } else if (const auto* f = std::get_if<float>(&value)) {
    proto->set_type(onnx::AttributeProto::FLOAT);
    proto->set_f(*f);
  } else if (const auto* s = std::get_if<std::string>(&value)) {
    proto->set_type(onnx::AttributeProto::STRING);
    proto->set_s(*s);
  } else if (const auto* is = std::get_if<std::vector<int64_t>>(&value)) {
    proto->set_type(onnx::AttributeProto::INTS);
    proto->mutable_ints()->Add(is->begin(), is->end());
  } else if (const auto* fs = std::get_if<std::vector<float>>(&value)) {
    proto->set_type(onnx::AttributeProto::FLOATS);
    proto->mutable_floats()->Add(fs->begin(), fs->end());
  } else if (const auto* ss = std::get_if<std::vector<std::string>>(&value)) {
    proto->set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& text : *ss) proto->add_strings(text);
  } else {
    return absl::InternalError(absl::StrCat(
        "attribute \"", attribute.name, "\" of a new node cannot be written"));
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::io
