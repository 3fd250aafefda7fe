#pragma once

#include <string>

#include "lockstep/v1/generation.pb.h"
#include "router/serving/validation/request_validator.h"

namespace lockstep::testing {

// Small bounds, so that both sides of each are cheap to test.
inline router::RequestLimits SmallLimits() {
  router::RequestLimits limits;
  limits.max_prompt_bytes = 40;
  limits.max_chat_messages = 3;
  limits.max_samples = 4;
  limits.max_stop_strings = 2;
  limits.max_stop_string_bytes = 5;
  limits.max_stop_token_ids = 3;
  limits.max_logit_bias_entries = 2;
  limits.max_allowed_token_ids = 3;
  limits.max_bad_words = 2;
  limits.max_bad_word_bytes = 5;
  limits.max_logprobs = 5;
  limits.max_template_arguments_bytes = 10;
  return limits;
}

inline router::ModelFacts SmallModel() {
  router::ModelFacts model;
  model.id = "tiny";
  model.aliases = {"other-alias", "tiny-alias"};
  model.vocab_size = 100;
  model.max_context_tokens = 32;
  model.has_chat_template = true;
  model.eos_token_ids = {2, 7};
  return model;
}

inline lockstep::v1::GenerateRequest SmallRequest() {
  lockstep::v1::GenerateRequest request;
  request.set_text("hello");
  return request;
}

inline void AddMessage(lockstep::v1::GenerateRequest& request, const std::string& role,
                       const std::string& content) {
  auto* const message = request.mutable_chat()->add_messages();
  message->set_role(role);
  message->set_content(content);
}

}  // namespace lockstep::testing
