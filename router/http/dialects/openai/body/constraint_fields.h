#pragma once

#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Reads what the output must fit: `response_format` of OpenAI, `structured_outputs` of vLLM, and
// vLLM's former `guided_json`, `guided_regex`, `guided_choice` and `guided_grammar`. At most one
// may be given. `body`: the whole body, because a schema keeps the order of its members. Errors
// stay in `fields`.
void ReadConstraintFields(JsonFields& fields, std::string_view body,
                          lockstep::v1::SamplingParams& sampling);

}  // namespace lockstep::router
