#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/json/json.h"
#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/openai/openai_request.h"
#include "router/http/json/json_fields.h"

// What requests of several kinds have in common. Errors stay in `fields`.
namespace lockstep::router {

inline constexpr std::string_view kTemplateArguments = "chat_template_kwargs";

// Sampling, stops, identity: everything that completions and chats call alike.
void ReadCommonFields(JsonFields& fields, const BodyReading& reading, OpenAiRequest& out,
                      lockstep::v1::GenerateRequest& request);
// A chat's prompt: its messages, the variables and switches of the template, and the fields of a
// chat that are not served. `arguments`: the text of kTemplateArguments, which has its members in
// the client's order.
void ReadChat(JsonFields& fields, std::string_view arguments, lockstep::v1::ChatPrompt& chat);

}  // namespace lockstep::router
