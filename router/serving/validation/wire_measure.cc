#include "router/serving/validation/wire_measure.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/status.h"
#include "router/constraints/constraint_limits.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Includes the heap's overhead and the pointer to the object. The largest message of a request has
// 144 bytes without its strings.
constexpr size_t kMessageBytes = 192;
constexpr size_t kStringBytes = 64;
// Arrays grow by doubling, and growing copies them.
constexpr size_t kScalarBytes = 12;
constexpr int kMaxDepth = 8;

absl::Status Malformed() { return InvalidArgument("the message cannot be parsed"); }

bool IsDelimited(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_STRING ||
         field.type() == FieldDescriptor::TYPE_BYTES ||
         field.type() == FieldDescriptor::TYPE_MESSAGE;
}

// False for groups, which our messages never used.
bool IsSkippable(WireFormatLite::WireType type) {
  return type == WireFormatLite::WIRETYPE_VARINT || type == WireFormatLite::WIRETYPE_FIXED64 ||
         type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
         type == WireFormatLite::WIRETYPE_FIXED32;
}

WireFormatLite::WireType WireTypeOf(const FieldDescriptor& field) {
  return WireFormatLite::WireTypeForFieldType(
      static_cast<WireFormatLite::FieldType>(static_cast<int>(field.type())));
}

// How many numbers the payload of a packed field has.
size_t CountPacked(std::string_view payload, WireFormatLite::WireType type) {
  if (type == WireFormatLite::WIRETYPE_FIXED32) return payload.size() / sizeof(uint32_t);
  if (type == WireFormatLite::WIRETYPE_FIXED64) return payload.size() / sizeof(uint64_t);
  // Only the last byte of a varint has its highest bit clear.
  return static_cast<size_t>(
      std::count_if(payload.begin(), payload.end(), [](char c) { return (c & 0x80) == 0; }));
}

class Measurement {
 public:
  explicit Measurement(std::span<const FieldBound> bounds)
      : bounds_(bounds), num_elements_(bounds.size()) {}

  absl::Status Add(std::string_view bytes, const Descriptor& type) {
    num_bytes_ += kMessageBytes;
    CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                           static_cast<int>(bytes.size()));
    while (const uint32_t tag = input.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const WireFormatLite::WireType wire_type = WireFormatLite::GetTagWireType(tag);
      if (number == 0 || !IsSkippable(wire_type)) return Malformed();
      const FieldDescriptor* const field = type.FindFieldByNumber(number);
      const bool packed = field != nullptr && field->is_packable() &&
                          wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
      // The parser, too, treats a known number with another wire type as an unknown field.
      if (field == nullptr || (wire_type != WireTypeOf(*field) && !packed)) {
        return Unimplemented("{}: field number {} of {} is not known to this router", Path(),
                             number, type.full_name());
      }
      if (packed || IsDelimited(*field)) {
        uint32_t size = 0;
        if (!input.ReadVarint32(&size)) return Malformed();
        const auto at = static_cast<size_t>(input.CurrentPosition());
        if (size > bytes.size() - at || !input.Skip(static_cast<int>(size))) return Malformed();
        LOCKSTEP_RETURN_IF_ERROR(AddDelimited(bytes.substr(at, size), *field));
        continue;
      }
      LOCKSTEP_RETURN_IF_ERROR(Count(*field, 1));
      if (!WireFormatLite::SkipField(&input, tag)) return Malformed();
    }
    return input.ConsumedEntireMessage() ? absl::OkStatus() : Malformed();
  }

  size_t num_bytes() const { return num_bytes_; }

 private:
  absl::Status AddDelimited(std::string_view payload, const FieldDescriptor& field) {
    if (!IsDelimited(field)) return Count(field, CountPacked(payload, WireTypeOf(field)));
    LOCKSTEP_RETURN_IF_ERROR(Count(field, 1));
    if (field.type() != FieldDescriptor::TYPE_MESSAGE) {
      num_bytes_ += kStringBytes + payload.size();
      return absl::OkStatus();
    }
    if (path_.size() == kMaxDepth) return Malformed();
    path_.push_back(&field);
    const absl::Status status = Add(payload, *field.message_type());
    path_.pop_back();
    return status;
  }

  absl::Status Count(const FieldDescriptor& field, size_t num_elements) {
    if (!field.is_repeated()) return absl::OkStatus();
    if (!IsDelimited(field)) num_bytes_ += kScalarBytes * num_elements;
    for (size_t i = 0; i < bounds_.size(); ++i) {
      if (bounds_[i].field != &field) continue;
      num_elements_[i] += num_elements;
      if (num_elements_[i] <= bounds_[i].max_elements) continue;
      const std::string path = path_.empty() ? field.name() : Path() + "." + field.name();
      return InvalidArgument("{}: expected at most {} {}, got {} or more", path,
                             bounds_[i].max_elements, bounds_[i].unit, num_elements_[i]);
    }
    return absl::OkStatus();
  }

  // The path in the form that the checks of parsed messages use.
  std::string Path() const {
    if (path_.empty()) return "request";
    std::string path;
    for (const FieldDescriptor* const field : path_) {
      if (!path.empty()) path += '.';
      path += field->name();
      if (!field->is_repeated()) continue;
      const auto bound = std::find_if(bounds_.begin(), bounds_.end(),
                                      [field](const FieldBound& b) { return b.field == field; });
      if (bound == bounds_.end()) continue;
      path += fmt::format("[{}]", num_elements_[static_cast<size_t>(bound - bounds_.begin())] - 1);
    }
    return path;
  }

  const std::span<const FieldBound> bounds_;
  std::vector<size_t> num_elements_;  // for each bound
  std::vector<const FieldDescriptor*> path_;
  size_t num_bytes_ = 0;
};

template <typename Message>
const FieldDescriptor* FieldOf(int number) {
  return Message::descriptor()->FindFieldByNumber(number);
}

}  // namespace

size_t MaxTokenizedBytes(const RequestLimits& limits) {
  return size_t{4} * limits.max_prompt_bytes;
}

size_t MaxDetokenizedIds(const RequestLimits& limits, uint32_t max_context_tokens) {
  return std::max<size_t>(MaxTokenizedBytes(limits), max_context_tokens);
}

std::vector<FieldBound> RequestBounds(const RequestLimits& limits, uint32_t max_context_tokens) {
  // A prompt of ids that will be cut may have as many ids as a text may have bytes.
  const size_t max_ids = std::max(limits.max_prompt_bytes, max_context_tokens);
  return {
      {FieldOf<v1::TokenIds>(v1::TokenIds::kIdsFieldNumber), max_ids, "ids"},
      {FieldOf<v1::ChatPrompt>(v1::ChatPrompt::kMessagesFieldNumber), limits.max_chat_messages,
       "messages"},
      {FieldOf<v1::SamplingParams>(v1::SamplingParams::kLogitBiasFieldNumber),
       limits.max_logit_bias_entries, "entries"},
      {FieldOf<v1::SamplingParams>(v1::SamplingParams::kAllowedTokenIdsFieldNumber),
       limits.max_allowed_token_ids, "ids"},
      {FieldOf<v1::SamplingParams>(v1::SamplingParams::kBadWordsFieldNumber), limits.max_bad_words,
       "strings"},
      {FieldOf<v1::ConstraintChoices>(v1::ConstraintChoices::kTextsFieldNumber), kMaxChoices,
       "texts"},
      {FieldOf<v1::StopCriteria>(v1::StopCriteria::kStopFieldNumber), limits.max_stop_strings,
       "strings"},
      {FieldOf<v1::StopCriteria>(v1::StopCriteria::kStopTokenIdsFieldNumber),
       limits.max_stop_token_ids, "ids"},
      {FieldOf<v1::DetokenizeRequest>(v1::DetokenizeRequest::kTokenIdsFieldNumber),
       MaxDetokenizedIds(limits, max_context_tokens), "ids"},
      {FieldOf<v1::AbortRequest>(v1::AbortRequest::kRequestIdsFieldNumber), kMaxAbortIds, "ids"}};
}

absl::StatusOr<size_t> MeasureMessage(std::string_view bytes, const Descriptor& type,
                                      std::span<const FieldBound> bounds) {
  Measurement measurement(bounds);
  LOCKSTEP_RETURN_IF_ERROR(measurement.Add(bytes, type));
  return measurement.num_bytes();
}

}  // namespace lockstep::router
