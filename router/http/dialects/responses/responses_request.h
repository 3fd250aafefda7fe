#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "router/http/dialects/openai/body/openai_request.h"

// Reads the JSON bodies of OpenAI's Responses API, with the fields for sampling that chats have.
// Pure. Errors are those of openai_request.h. The paths of `input` are the client's own.
namespace lockstep::router {

// A tool of the client, as the model knows it.
struct ResponseTool {
  std::string flat_name;   // the name of the function that the model may call
  std::string name;        // the client's name
  std::string name_space;  // the namespace around it; empty: none
  bool custom = false;     // its argument is plain text, in the one parameter kCustomInput
};

inline constexpr std::string_view kCustomInput = "input";

struct ResponsesRequest : OpenAiRequest {
  size_t NumHeldBytes() const override { return ApiRequest::NumHeldBytes() + echo.size(); }

  std::vector<ResponseTool> tools;
  // The members of the answer that repeat the request: `"a":1,"b":2`.
  std::string echo;
};

absl::StatusOr<ResponsesRequest> ParseResponsesRequest(std::string_view body,
                                                       const BodyReading& reading = {});

}  // namespace lockstep::router
