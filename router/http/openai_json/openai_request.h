#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/v1/generation.pb.h"
#include "router/serving/validation/request_validator.h"

// From the JSON bodies of OpenAI's API, with the fields that vLLM added, to the messages of ours:
// everything behind them is what gRPC uses. Pure. Errors are INVALID_ARGUMENT "field: expected ...,
// got ..." with the name of the field in the JSON, UNIMPLEMENTED for a field that is known but not
// served: it would change the output. Fields that are not known are ignored and listed.
namespace lockstep::router {

enum class ApiKind { kCompletion, kChat };

// How the answer is to be written.
struct AnswerOptions {
  ApiKind kind = ApiKind::kCompletion;
  bool stream = false;
  bool include_usage = false;     // one more chunk at the end of a stream
  bool continuous_usage = false;  // likewise, and in every chunk
  bool echo = false;              // the prompt comes first
  uint32_t echo_logprobs = 0;     // so many of the best, of the tokens of that prompt
  bool prompt_only = false;       // max_tokens 0: one token is made and left out
  bool logprobs = false;
  std::optional<uint32_t> prompt_logprobs;  // so many of the best, beside each prompt token's own
  bool token_ids = false;                   // of prompts and choices, beside the text
  bool tokens_as_ids = false;               // "token_id:17" instead of the token's text
  uint32_t num_samples = 1;                 // choices of each prompt
};

struct OpenAiRequest {
  AnswerOptions options;
  std::string request_id;                              // empty: none was given
  std::string ignored_fields;                          // UnknownFields::list
  std::vector<lockstep::v1::GenerateRequest> prompts;  // at least one
  bool lists_prompts = false;  // "prompt" is a list of prompts, perhaps of one

  // Each prompt of a batch is a request of its own, "<id>-<index>".
  void SetRequestId(const std::string& id);
  // About what all prompts take in memory.
  size_t NumHeldBytes() const;
};

inline constexpr size_t kMaxPromptsPerRequest = 256;
inline constexpr size_t kMaxSharedBytes = size_t{256} << 10;  // of what several prompts share

// Hears how much memory reading takes, and may refuse it (JsonMeter of common/json/json.h).
using BodyMeter = std::function<bool(size_t num_bytes)>;

// How a body is read.
struct BodyReading {
  BodyMeter meter = nullptr;
  bool strict_fields = false;  // fields that are not known are refused
  // For errors to tell the true range of a number that no message can carry.
  RequestLimits limits = {};
  uint32_t max_context_tokens = UINT32_MAX;
};

absl::StatusOr<OpenAiRequest> ParseCompletionRequest(std::string_view body,
                                                     const BodyReading& reading = {});
absl::StatusOr<OpenAiRequest> ParseChatRequest(std::string_view body,
                                               const BodyReading& reading = {});

struct TokenizeQuery {
  lockstep::v1::TokenizeRequest request;
  bool token_strings = false;  // wanted in the answer
  std::string ignored_fields;
};
absl::StatusOr<TokenizeQuery> ParseTokenizeRequest(std::string_view body,
                                                   const BodyReading& reading = {});
struct DetokenizeQuery {
  lockstep::v1::DetokenizeRequest request;
  std::string ignored_fields;
};
absl::StatusOr<DetokenizeQuery> ParseDetokenizeRequest(std::string_view body,
                                                       const BodyReading& reading = {});

}  // namespace lockstep::router
