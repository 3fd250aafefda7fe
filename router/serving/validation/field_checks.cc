#include "router/serving/validation/field_checks.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cmath>

#include "common/ids.h"
#include "common/status.h"

namespace lockstep::router {

absl::Status CheckId(std::string_view path, std::string_view id, size_t max_bytes) {
  if (id.size() > max_bytes) {
    return InvalidArgument("{}: expected at most {} bytes, got {}", path, max_bytes, id.size());
  }
  if (!std::all_of(id.begin(), id.end(), IsIdCharacter)) {
    return InvalidArgument("{}: expected characters of [A-Za-z0-9._:-], got {}", path, Quote(id));
  }
  return absl::OkStatus();
}

absl::Status CheckSize(std::string_view path, size_t size, size_t max, std::string_view unit) {
  if (size <= max) return absl::OkStatus();
  return InvalidArgument("{}: expected at most {} {}, got {}", path, max, unit, size);
}

absl::Status CheckRange(std::string_view path, float value, float low, float high) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument("{}: expected a number in [{}, {}], got {}", path, low, high, value);
}

absl::Status CheckCount(std::string_view path, uint32_t value, uint32_t low, uint32_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument("{}: expected a number from {} to {}, got {}", path, low, high, value);
}

absl::Status CheckModelTokens(std::string_view path, std::span<const TokenId> tokens,
                              uint32_t vocab_size) {
  const auto outside =
      std::ranges::find_if(tokens, [vocab_size](TokenId id) { return id >= vocab_size; });
  if (outside == tokens.end()) return absl::OkStatus();
  return InvalidArgument(
      "{}: it has token {} of the tokenizer, but the model has only the tokens below {}", path,
      *outside, vocab_size);
}

absl::Status ParseSpecialWithoutText() {
  return InvalidArgument(
      "parse_special: expected with text only: messages of a chat never have special tokens");
}

absl::Status CheckKnownFields(std::string_view path, const google::protobuf::Message& message) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty()) return absl::OkStatus();
  return Unimplemented("{}: field number {} of {} is not known to this router", path,
                       unknown.field(0).number(), message.GetDescriptor()->full_name());
}

}  // namespace lockstep::router
