#pragma once

#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Reads what the output must fit: `response_format` of OpenAI, `structured_outputs` of vLLM, and
// vLLM's former `guided_json`, `guided_regex`, `guided_choice` and `guided_grammar`. At most one
// may be given. A schema keeps the order of its members. Errors stay in `fields`, which are those
// of a body.
void ReadConstraintFields(JsonFields& fields, lockstep::v1::SamplingParams& sampling);

}  // namespace lockstep::router
