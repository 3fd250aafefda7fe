#pragma once

#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/responses/responses_request.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

inline constexpr size_t kMaxTools = 1024;  // of one request, those in namespaces included

// Reads `tools`, `tool_choice` and `parallel_tool_calls` into the chat's functions, and the names
// of these into `tools`. Errors stay in `fields`.
//
// A custom tool becomes a function with the one parameter kCustomInput. The tools of a namespace
// become functions with flat names. Tools that only OpenAI can run are left out, and are added to
// the unknown fields.
//
// `text`: of the member `tools`, for the order of keys in schemas.
void ReadResponseTools(JsonFields& fields, std::string_view text, UnknownFields& unknown,
                       std::vector<ResponseTool>& tools, lockstep::v1::ChatPrompt& chat);

}  // namespace lockstep::router
