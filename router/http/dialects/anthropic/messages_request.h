#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>

#include "router/http/dialects/dialect.h"
#include "router/http/dialects/openai/text_queries.h"

// Reads the JSON bodies of Anthropic's /v1/messages and /v1/messages/count_tokens. Pure. Errors are
// INVALID_ARGUMENT "field: expected ..., got ..." with the field's path in the body, and
// UNIMPLEMENTED for what would change the output and is not served. Unknown fields, and tools that
// only Anthropic's own servers run, are left out and listed.
namespace lockstep::router {

struct MessagesRequest : ApiRequest {
  uint32_t max_tokens = 0;
  bool names_tool = false;  // the answer must call a certain tool
};

absl::StatusOr<MessagesRequest> ParseMessagesRequest(std::string_view body,
                                                     const BodyReading& reading = {});

// The same body, without the fields that only an output has. Its prompt is the same.
absl::StatusOr<TokenizeQuery> ParseCountTokensRequest(std::string_view body,
                                                      const BodyReading& reading = {});

}  // namespace lockstep::router
