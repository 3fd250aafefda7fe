#pragma once

#include <absl/status/statusor.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/json/json.h"
#include "lockstep/v1/generation.pb.h"
#include "router/http/dialects/openai/body/openai_request.h"
#include "router/http/json/json_fields.h"

// Reads fields that several kinds of requests have in common. Errors stay in `fields`.
namespace lockstep::router {

// Sampling, stops, identity: all fields with the same names in completions and chats.
void ReadCommonFields(JsonFields& fields, const BodyReading& reading, OpenAiRequest& out,
                      lockstep::v1::GenerateRequest& request);

}  // namespace lockstep::router
