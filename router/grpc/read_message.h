#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>

#include "common/status.h"
#include "router/grpc/message_reader.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/validation/wire_measure.h"

namespace lockstep::router {

// A message of this size is parsed in well below a millisecond. So the connection's thread parses
// it, and a refusal does not wait behind the prompts of others.
inline constexpr size_t kMaxInlineMessageBytes = 32 << 10;

// Parses the bytes of a call into a request. The request's memory is counted in the message's share
// before it is allocated. When this succeeds, the bytes are freed and the share counts the request
// only.
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
    return InvalidArgument("the message cannot be parsed");
  }
  std::string().swap(message.bytes);  // an assignment would keep the memory
  message.held.Resize(num_bytes);
  return absl::OkStatus();
}

}  // namespace lockstep::router
