#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/json/json.h"
#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/openai/openai_request.h"
#include "router/http/json/json_fields.h"

// Reads fields that several kinds of requests have in common. Errors stay in `fields`.
namespace lockstep::router {

inline constexpr std::string_view kTemplateArguments = "chat_template_kwargs";

// Sampling, stops, identity: all fields with the same names in completions and chats.
void ReadCommonFields(JsonFields& fields, const BodyReading& reading, OpenAiRequest& out,
                      lockstep::v1::GenerateRequest& request);
// Reads a chat's prompt: its messages, the template's variables and switches, and a chat's unserved
// fields. `arguments`: the text of kTemplateArguments, with the members in the client's order.
void ReadChat(JsonFields& fields, std::string_view arguments, lockstep::v1::ChatPrompt& chat);

}  // namespace lockstep::router
