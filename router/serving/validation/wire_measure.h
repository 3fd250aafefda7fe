#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "router/serving/validation/request_validator.h"

// Estimates what a client's message takes once it is parsed, without parsing it. Parsing makes
// objects: an element of two bytes may take a hundred bytes in memory.
namespace lockstep::router {

// The maximum number of elements of one repeated field, over the whole message.
struct FieldBound {
  const google::protobuf::FieldDescriptor* field;
  size_t max_elements;
  std::string_view unit;
};

// The longest text that Tokenize cuts into ids. The tokenizer may lengthen a text before.
size_t MaxTokenizedBytes(const RequestLimits& limits);
// Detokenize accepts the ids of any such text, and of any text that the model reads or writes. The
// API may limit the request's body further.
size_t MaxDetokenizedIds(const RequestLimits& limits, uint32_t max_context_tokens);

// The bounds of every repeated field in the public API's requests.
std::vector<FieldBound> RequestBounds(const RequestLimits& limits, uint32_t max_context_tokens);

inline constexpr size_t kMaxAbortIds = 1024;

// About how many bytes the message takes once it is parsed; never far too low. INVALID_ARGUMENT
// "path: expected at most ..." if a field has more elements than its bound, and for bytes that are
// no message. UNIMPLEMENTED for an unknown field. Stops at the first error. A message that passes
// may still fail to parse.
absl::StatusOr<size_t> MeasureMessage(std::string_view bytes,
                                      const google::protobuf::Descriptor& type,
                                      std::span<const FieldBound> bounds);

}  // namespace lockstep::router
