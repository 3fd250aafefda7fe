#pragma once

#include <absl/status/statusor.h>
#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "router/serving/validation/request_validator.h"

// What the bytes of a stranger's message would be parsed into, found without parsing them. Parsing
// makes objects: an element of two bytes may take a hundred in memory.
namespace lockstep::router {

// The most elements of one repeated field, over the whole message.
struct FieldBound {
  const google::protobuf::FieldDescriptor* field;
  size_t max_elements;
  std::string_view unit;
};

// Bounds of every repeated field of the public API's requests.
std::vector<FieldBound> RequestBounds(const RequestLimits& limits, uint32_t max_context_tokens);

inline constexpr size_t kMaxAbortIds = 1024;

// About how many bytes the message takes once it is parsed, never far too few. INVALID_ARGUMENT
// "path: expected at most ..." when a field has more elements than its bound, UNIMPLEMENTED for an
// unknown field, INVALID_ARGUMENT for bytes that are no message. Stops at the first error. What
// passes here may still fail to parse.
absl::StatusOr<size_t> MeasureMessage(std::string_view bytes,
                                      const google::protobuf::Descriptor& type,
                                      std::span<const FieldBound> bounds);

}  // namespace lockstep::router
