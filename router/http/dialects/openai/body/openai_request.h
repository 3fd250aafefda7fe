#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "router/http/dialects/dialect.h"

// Reads the JSON bodies of OpenAI's completions and chats, with the fields that vLLM added. Pure.
// Errors are INVALID_ARGUMENT "field: expected ..., got ..." with the field's name in the JSON, and
// UNIMPLEMENTED for a field that is known but not served, because it would change the output.
// Unknown fields are ignored and listed.
namespace lockstep::router {

// How the answer is written.
struct AnswerOptions {
  bool include_usage = false;     // a stream ends with one more chunk
  bool continuous_usage = false;  // the same, and in every chunk
  bool echo = false;              // begin with the prompt
  uint32_t echo_logprobs = 0;     // number of alternatives for the tokens of that prompt
  bool prompt_only = false;       // max_tokens 0: one token is generated and left out
  bool logprobs = false;
  std::optional<uint32_t> prompt_logprobs;  // number of alternatives for each prompt token
  bool token_ids = false;                   // of prompts and choices, in addition to the text
  bool tokens_as_ids = false;               // "token_id:17" instead of the token's text
  bool include_reasoning = true;            // a chat's answer has the reasoning, if it is marked
  uint32_t num_samples = 1;                 // choices of each prompt
};

struct OpenAiRequest : ApiRequest {
  AnswerOptions options;
};

inline constexpr size_t kMaxPromptsPerRequest = 256;
inline constexpr size_t kMaxSharedBytes = size_t{256} << 10;  // of the fields that several prompts
                                                              // share

absl::StatusOr<OpenAiRequest> ParseCompletionRequest(std::string_view body,
                                                     const BodyReading& reading = {});
absl::StatusOr<OpenAiRequest> ParseChatRequest(std::string_view body,
                                               const BodyReading& reading = {});

}  // namespace lockstep::router
