#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/instant.h"
#include "common/model_files/model_config.h"
#include "lockstep/v1/generation.pb.h"
#include "router/core/messages/request.h"

// Checks a client's message before anything is allocated for it. Pure. Errors: INVALID_ARGUMENT
// "field.path: expected ..., got ...", UNIMPLEMENTED for known fields that are not served,
// NOT_FOUND for another model.
namespace lockstep::router {

inline constexpr size_t kMaxIdBytes = 256;  // for ids of requests, tenants and sessions
inline constexpr int32_t kMaxPriority = 1000;
// A value of GenerateRequest.truncate_prompt_tokens: keep as many tokens as leave room for the
// output.
inline constexpr uint32_t kAllThatFits = UINT32_MAX;

// An alias of the model that stands for every name.
inline constexpr std::string_view kAnyModel = "*";

struct RequestLimits {
  // For a text, or for all strings of a chat and its tools together.
  uint32_t max_prompt_bytes = 1 << 20;
  uint32_t max_prompt_tokens = 0;  // 0: what the context allows
  uint32_t max_chat_messages = 1024;
  uint32_t max_samples = 16;  // n
  uint32_t max_stop_strings = 16;
  uint32_t max_stop_string_bytes = 256;
  uint32_t max_stop_token_ids = 64;
  uint32_t max_logit_bias_entries = 1024;
  uint32_t max_allowed_token_ids = 16384;
  uint32_t max_bad_words = 256;
  uint32_t max_bad_word_bytes = 256;
  uint32_t max_logprobs = 20;
  uint32_t max_template_arguments_bytes = 1 << 16;
  uint32_t max_tools = 128;
  // prompt_logprobs come in one message. Prompt tokens times (k + 3) must not exceed this.
  uint32_t max_prompt_logprob_cells = 400'000;

  absl::Status Validate() const;  // reports every violation
};

// The facts about the model that a request is checked against.
struct ModelFacts {
  std::string id;
  std::vector<std::string> aliases;
  uint32_t vocab_size = 0;
  uint32_t max_context_tokens = 0;
  bool has_chat_template = false;
  bool parses_calls = false;  // calls of tools can be found in its output
  bool enforces_constraints = false;
  std::vector<TokenId> eos_token_ids;
  SamplingNumbers defaults;
};

// NOT_FOUND if `name` is neither empty, nor the model's id, nor an alias.
absl::Status CheckModelName(std::string_view name, std::string_view id,
                            std::span<const std::string> aliases);
// Checks everything that can be checked before the prompt is tokenized.
absl::Status CheckRequest(const lockstep::v1::GenerateRequest& request, const RequestLimits& limits,
                          const ModelFacts& model);
absl::Status CheckChat(const lockstep::v1::ChatPrompt& chat, const std::string& path,
                       const RequestLimits& limits, const ModelFacts& model);
// Of all texts of a message together.
size_t NumTextBytes(const lockstep::v1::ChatMessage& message);

}  // namespace lockstep::router
