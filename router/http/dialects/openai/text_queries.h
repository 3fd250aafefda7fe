#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_body.h"

// Reads the JSON bodies of /tokenize and /detokenize, in vLLM's form. Pure. Errors are those of
// openai_request.h.
namespace lockstep::router {

struct TokenizeQuery {
  lockstep::v1::TokenizeRequest request;
  bool token_strings = false;  // the answer has them too
  std::string ignored_fields;  // UnknownFields::list
};
absl::StatusOr<TokenizeQuery> ParseTokenizeRequest(std::string_view body,
                                                   const BodyReading& reading = {});

struct DetokenizeQuery {
  lockstep::v1::DetokenizeRequest request;
  std::string ignored_fields;
};
absl::StatusOr<DetokenizeQuery> ParseDetokenizeRequest(std::string_view body,
                                                       const BodyReading& reading = {});

}  // namespace lockstep::router
