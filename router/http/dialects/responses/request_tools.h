#pragma once

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
// the unknown fields. Schemas keep the order of their keys.
void ReadResponseTools(JsonFields& fields, UnknownFields& unknown, std::vector<ResponseTool>& tools,
                       lockstep::v1::ChatPrompt& chat);

}  // namespace lockstep::router
