#pragma once

#include <string>

#include "router/serving/validation/request_validator.h"
#include "router/text/tokenizer/tokenizer.h"

namespace lockstep::router {

// The body of GET /tokenizer_info, with the names of Hugging Face's tokenizer_config.json.
std::string TokenizerInfo(const Tokenizer& tokenizer, const ModelFacts& model);

}  // namespace lockstep::router
