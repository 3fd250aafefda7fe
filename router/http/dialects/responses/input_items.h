#pragma once

#include <string>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Reads `instructions` and `input` into the messages of a chat. Errors stay in `fields`.
//
// What an assistant did in one turn may come as several items. Its calls join the message before
// them, so that parallel calls are in one message, and text after a call joins that message too.
// Reasoning belongs to the assistant's next message. System messages at the beginning become one
// message, because many templates know only one.
void ReadInput(JsonFields& fields, lockstep::v1::ChatPrompt& chat);

// The model's name for a function of a namespace.
std::string FlatToolName(const std::string& name_space, const std::string& name);

}  // namespace lockstep::router
