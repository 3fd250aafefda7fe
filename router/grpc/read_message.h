#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>

#include "common/status.h"
#include "router/grpc/message_reader.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/validation/wire_measure.h"

namespace lockstep::router {

// Reading a message of this size takes well below a millisecond, so the connection's thread does
// it; a refusal then does not wait behind others' prompts.
inline constexpr size_t kMaxInlineMessageBytes = 32 << 10;

// From the bytes of a call to its request. What the request takes is counted before it is made, in
// the message's share, which counts nothing else once this returns: the bytes are gone.
template <typename Request>
absl::Status ReadMessage(const ApiContext& context, MessageReader::Message& message,
                         Request& request) {
  LOCKSTEP_ASSIGN_OR_RETURN(
      const size_t num_bytes,
      MeasureMessage(message.bytes, *Request::descriptor(), context.request_bounds));
  if (!message.held.Resize(message.bytes.size() + num_bytes)) {
    return ResourceExhausted("too many bytes of other calls are in transit");
  }
  if (!request.ParseFromString(message.bytes)) {
    return absl::InvalidArgumentError("the message cannot be parsed");
  }
  std::string().swap(message.bytes);  // an assignment would keep its memory
  message.held.Resize(num_bytes);
  return absl::OkStatus();
}

}  // namespace lockstep::router
