#pragma once

#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Reads `tools` and `tool_choice` into the chat, in the form of OpenAI's API. Schemas keep the
// order of their keys. Tools that Anthropic defines ("web_search_20250305") have no schema here:
// they are left out and listed, or refused with strict fields. Errors stay in `fields`, which are
// those of a body.
void ReadMessageTools(JsonFields& fields, UnknownFields& unknown, lockstep::v1::ChatPrompt& chat);

}  // namespace lockstep::router
