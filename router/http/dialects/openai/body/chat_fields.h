#pragma once

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Reads a chat's prompt: its messages, its tools, the template's variables and switches, and a
// chat's unserved fields. Errors stay in `fields`, which must be those of a body with its text.
void ReadChat(JsonFields& fields, lockstep::v1::ChatPrompt& chat);

}  // namespace lockstep::router
