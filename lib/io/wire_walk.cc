#include "io/wire_walk.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// Longer payloads are not looked into; ResolveTensor checks what it needs.
constexpr size_t kMaxCheckedPacked = 1024;

class Walker {
 public:
  Walker(absl::string_view input, TensorFunction edit_tensor,
         WireOutput* output)
      : input_(input), edit_tensor_(edit_tensor), output_(output) {}

  absl::Status Walk() {
    bool changed = false;
    RETURN_IF_ERROR(WalkMessage(schema_.model(), 0, input_.size(), &changed));
    if (!changed) {
      output_->Rewind({});
      output_->AddInput(0, input_.size());
    }
    return absl::OkStatus();
  }

 private:
  using Field = WireSchema::Field;
  using Message = WireSchema::Message;

  struct Token {
    uint32_t number = 0;
    WireType type = WireType::kVarint;
    const Field* field = nullptr;  // nullptr: ONNX has no such field
    size_t begin = 0;
    size_t length_begin = 0;  // end of the tag
    size_t value_begin = 0;
    size_t end = 0;
    uint64_t varint = 0;
  };

  absl::Status WalkMessage(const Message& message, size_t begin, size_t end,
                           bool* changed);
  absl::Status WalkTensor(const Message& message, size_t begin, size_t end,
                          bool* changed);
  absl::Status WalkNested(const Token& token, bool emit, bool* changed);
  absl::Status ReadToken(const Message& message, size_t begin, size_t end,
                         Token* token);
  absl::Status CheckPacked(const Message& message, const Token& token);
  std::optional<uint64_t> ReadVarint(size_t end, size_t max_bytes, size_t* pos);

  std::string Path(const Token& token) const;
  absl::Status Error(const Token& token, absl::string_view text) const;
  // Where the bytes themselves make no sense as a model, rather than being cut
  // short or damaged further on.
  absl::Status NotAModel(const Token& token, absl::string_view text) const;

  absl::string_view input_;
  TensorFunction edit_tensor_;
  WireOutput* output_;
  WireSchema schema_;
  std::vector<absl::string_view> path_;  // names of the fields we are in
  int nested_graphs_ = 0;
  bool saw_graph_ = false;
};

std::string Walker::Path(const Token& token) const {
  std::vector<absl::string_view> names = path_;
  std::string last = token.field != nullptr ? std::string(token.field->name)
                     : token.number != 0    ? absl::StrCat("#", token.number)
                                            : "";
  if (!last.empty()) names.emplace_back(last);
  if (names.empty()) return "model";
  constexpr size_t kShown = 6;
  if (names.size() > kShown) {
    names.erase(names.begin() + 1, names.end() - (kShown - 1));
    names.insert(names.begin() + 1, "..");
  }
  return absl::StrCat("field ", absl::StrJoin(names, "."));
}

absl::Status Walker::Error(const Token& token, absl::string_view text) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "invalid protobuf at byte ", token.begin, ": ", Path(token), " ", text));
}

absl::Status Walker::NotAModel(const Token& token,
                               absl::string_view text) const {
  absl::Status status = Error(token, text);
  if (!path_.empty() || saw_graph_) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("not an ONNX file: ", status.message()));
}

std::optional<uint64_t> Walker::ReadVarint(size_t end, size_t max_bytes,
                                           size_t* pos) {
  uint64_t value = 0;
  for (size_t i = 0; i < max_bytes && *pos < end; ++i) {
    const uint8_t byte = static_cast<uint8_t>(input_[(*pos)++]);
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

absl::Status Walker::ReadToken(const Message& message, size_t begin, size_t end,
                               Token* token) {
  constexpr size_t kTagBytes = 5;
  constexpr size_t kVarintBytes = 10;
  *token = Token();
  token->begin = begin;
  size_t pos = begin;
  const std::optional<uint64_t> tag = ReadVarint(end, kTagBytes, &pos);
  if (!tag.has_value()) {
    return NotAModel(*token, pos == end ? "ends inside a field's tag"
                                        : "has a tag of more than 5 bytes");
  }
  if (*tag > UINT32_MAX || (*tag >> 3) == 0) {
    return NotAModel(*token, "has a field with an invalid number");
  }
  token->number = static_cast<uint32_t>(*tag >> 3);
  token->field = message.Find(token->number);
  const uint32_t wire_type = static_cast<uint32_t>(*tag & 7);
  token->type = static_cast<WireType>(wire_type);
  token->length_begin = pos;
  token->value_begin = pos;
  if (token->type == WireType::kStartGroup ||
      token->type == WireType::kEndGroup) {
    return NotAModel(*token, "is a protobuf group, which ONNX does not use");
  }
  if (wire_type > 5) {
    return NotAModel(*token, absl::StrCat("has no wire type ", wire_type));
  }
  if (token->field != nullptr) {
    const bool packed =
        token->field->packable && token->type == WireType::kLengthDelimited;
    if (!packed && token->type != token->field->wire_type) {
      return NotAModel(
          *token, absl::StrCat("has wire type ", wire_type, ", expected ",
                               static_cast<uint32_t>(token->field->wire_type)));
    }
  }
  uint64_t size = 0;
  switch (token->type) {
    case WireType::kVarint: {
      const std::optional<uint64_t> value = ReadVarint(end, kVarintBytes, &pos);
      if (!value.has_value()) {
        return NotAModel(*token, pos == end
                                     ? "ends inside a number"
                                     : "has a number of more than 10 bytes");
      }
      token->varint = *value;
      token->end = pos;
      return absl::OkStatus();
    }
    case WireType::kFixed64:
      size = 8;
      break;
    case WireType::kFixed32:
      size = 4;
      break;
    default: {
      const std::optional<uint64_t> length = ReadVarint(end, kTagBytes, &pos);
      if (!length.has_value()) {
        return NotAModel(*token, pos == end ? "ends inside its length"
                                            : "has an invalid length");
      }
      size = *length;
      token->value_begin = pos;
      break;
    }
  }
  if (size > end - pos) {
    const std::string claim =
        absl::StrCat("claims ", size, " bytes, ", end - pos, " are left");
    if (token->field == nullptr) return NotAModel(*token, claim);
    return absl::InvalidArgumentError(absl::StrCat(
        "truncated at byte ", pos, ": ", Path(*token), " ", claim));
  }
  token->end = pos + static_cast<size_t>(size);
  return absl::OkStatus();
}

absl::Status Walker::CheckPacked(const Message& message, const Token& token) {
  const size_t size = token.end - token.value_begin;
  const size_t width = token.field->wire_type == WireType::kFixed32   ? 4
                       : token.field->wire_type == WireType::kFixed64 ? 8
                                                                      : 1;
  if (size % width != 0) {
    return Error(
        token,
        absl::StrCat("has ", size, " bytes, which is no multiple of ", width));
  }
  if (token.field->wire_type != WireType::kVarint) return absl::OkStatus();
  if (message.kind == WireSchema::Kind::kTensor && size > kMaxCheckedPacked) {
    return absl::OkStatus();
  }
  size_t pos = token.value_begin;
  while (pos < token.end) {
    if (!ReadVarint(token.end, 10, &pos).has_value()) {
      return Error(token, "ends inside a number");
    }
  }
  return absl::OkStatus();
}

absl::Status Walker::WalkNested(const Token& token, bool emit, bool* changed) {
  const Message& message = *token.field->message;
  if (path_.size() >= kMaxNestedMessages) {
    return Error(token, absl::StrCat("is nested more than ", kMaxNestedMessages,
                                     " messages deep"));
  }
  const bool is_graph = message.kind == WireSchema::Kind::kGraph;
  // The main graph is not nested.
  if (is_graph && nested_graphs_ > kMaxNestedGraphs) {
    return Error(token, absl::StrCat("has subgraphs nested more than ",
                                     kMaxNestedGraphs, " deep"));
  }
  path_.push_back(token.field->name);
  if (is_graph) ++nested_graphs_;
  const WireOutput::Mark mark = output_->Here();
  size_t place = 0;
  if (emit && message.holds_tensors) {
    output_->AddInput(token.begin, token.length_begin);
    place = output_->BeginLength();
  }
  bool child_changed = false;
  if (message.kind == WireSchema::Kind::kTensor) {
    RETURN_IF_ERROR(
        WalkTensor(message, token.value_begin, token.end, &child_changed));
  } else {
    RETURN_IF_ERROR(
        WalkMessage(message, token.value_begin, token.end, &child_changed));
  }
  if (child_changed) {
    output_->EndLength(place);
    *changed = true;
  } else if (emit) {
    output_->Rewind(mark);
    output_->AddInput(token.begin, token.end);
  }
  if (is_graph) --nested_graphs_;
  path_.pop_back();
  return absl::OkStatus();
}

absl::Status Walker::WalkMessage(const Message& message, size_t begin,
                                 size_t end, bool* changed) {
  const bool emit = message.holds_tensors;
  uint64_t seen = 0;  // singular fields; their numbers are below 64
  Token token;
  for (size_t pos = begin; pos < end; pos = token.end) {
    RETURN_IF_ERROR(ReadToken(message, pos, end, &token));
    const Field* field = token.field;
    if (field != nullptr && field->message != nullptr) {
      if (field->message->holds_tensors && !field->repeated) {
        // Protobuf would merge the two, and a cut payload cannot be merged.
        const uint64_t bit = uint64_t{1} << (token.number % 64);
        if ((seen & bit) != 0) return Error(token, "occurs twice");
        seen |= bit;
      }
      RETURN_IF_ERROR(WalkNested(token, emit, changed));
      if (path_.empty() && field->message->kind == WireSchema::Kind::kGraph) {
        saw_graph_ = true;
      }
      continue;
    }
    if (field != nullptr && token.type == WireType::kLengthDelimited &&
        field->packable) {
      RETURN_IF_ERROR(CheckPacked(message, token));
    }
    if (emit) output_->AddInput(token.begin, token.end);
  }
  return absl::OkStatus();
}

absl::Status Walker::WalkTensor(const Message& message, size_t begin,
                                size_t end, bool* changed) {
  TensorSummary summary;
  summary.first_other = end;
  Token token;
  for (size_t pos = begin; pos < end; pos = token.end) {
    RETURN_IF_ERROR(ReadToken(message, pos, end, &token));
    if (token.field != nullptr && token.field->message != nullptr) {
      bool nested_changed = false;
      RETURN_IF_ERROR(WalkNested(token, /*emit=*/false, &nested_changed));
    } else if (token.field != nullptr &&
               token.type == WireType::kLengthDelimited &&
               token.field->packable) {
      RETURN_IF_ERROR(CheckPacked(message, token));
    }
    if (token.number >= kSummaryFields) {
      summary.first_other = std::min(summary.first_other, token.begin);
      if (token.number != kMarkerField) continue;
      if (token.type != WireType::kVarint) {
        return Error(token, "has a number that this program reserves");
      }
      summary.markers.push_back({token.varint, token.begin, token.end});
      continue;
    }
    TensorSummary::Occurrences& field = summary.fields[token.number];
    if (field.count == 0) {
      field.begin = token.begin;
    } else if (field.end != token.begin) {
      field.contiguous = false;
    }
    ++field.count;
    field.end = token.end;
    field.value_begin = token.value_begin;
    if (token.type != WireType::kLengthDelimited)
      field.length_delimited = false;
  }
  ASSIGN_OR_RETURN(const TensorEdits edits, edit_tensor_(summary));
  if (edits.empty()) return absl::OkStatus();
  size_t cursor = begin;
  for (const WireEdit& edit : edits) {
    output_->AddInput(cursor, edit.begin);
    for (absl::string_view view : edit.replacement) output_->AddView(view);
    cursor = edit.end;
  }
  output_->AddInput(cursor, end);
  *changed = true;
  return absl::OkStatus();
}

}  // namespace

void WireOutput::AddInput(size_t begin, size_t end) {
  assert(begin <= end && end <= input_.size() && "a range of the input");
  if (begin == end) return;
  const char* data = input_.data() + begin;
  total_ += end - begin;
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.data != nullptr && last.data + last.size == data) {
      last.size += end - begin;
      return;
    }
  }
  pieces_.push_back({.data = data, .size = end - begin});
}

void WireOutput::AddView(absl::string_view view) {
  if (view.empty()) return;
  pieces_.push_back({.data = view.data(), .size = view.size()});
  total_ += view.size();
}

size_t WireOutput::BeginLength() {
  pieces_.push_back({.total_before = total_});
  return pieces_.size() - 1;
}

void WireOutput::EndLength(size_t place) {
  std::string length;
  AppendVarint(total_ - pieces_[place].total_before, &length);
  pieces_[place].pool_offset = pool_.size();
  pieces_[place].size = length.size();
  pool_.insert(pool_.end(), length.begin(), length.end());
  total_ += length.size();
}

WireOutput::Mark WireOutput::Here() const {
  return {.pieces = pieces_.size(),
          .last_size = pieces_.empty() ? 0 : pieces_.back().size,
          .total = total_,
          .pool = pool_.size()};
}

void WireOutput::Rewind(const Mark& mark) {
  pieces_.resize(mark.pieces);
  if (!pieces_.empty()) pieces_.back().size = mark.last_size;
  total_ = mark.total;
  pool_.resize(mark.pool);
}

std::vector<absl::string_view> WireOutput::Views() const {
  std::vector<absl::string_view> views;
  views.reserve(pieces_.size());
  for (const Piece& piece : pieces_) {
    const char* data =
        piece.data != nullptr ? piece.data : pool_.data() + piece.pool_offset;
    views.emplace_back(data, piece.size);
  }
  return views;
}

absl::Status WalkModel(absl::string_view input, TensorFunction edit_tensor,
                       WireOutput* output) {
  return Walker(input, edit_tensor, output).Walk();
}

void AppendVarint(uint64_t value, std::string* out) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void AppendTag(uint32_t number, WireType type, std::string* out) {
  AppendVarint(uint64_t{number} << 3 | static_cast<uint64_t>(type), out);
}

}  // namespace onnx_memopt::io
