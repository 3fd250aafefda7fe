#pragma once

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

// Reads what bodies say about tools. Errors stay in the fields.
namespace lockstep::router {

// `tools`, `tool_choice` and `parallel_tool_calls` of a body with its text. The tools keep the
// client's text. They are checked with the request.
void ReadTools(JsonFields& fields, lockstep::v1::ChatPrompt& chat);

// A message's calls, the call whose result it is, and its reasoning. `out` has its role.
void ReadToolFields(JsonFields& message, lockstep::v1::ChatMessage& out);

}  // namespace lockstep::router
