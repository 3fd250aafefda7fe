#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/v1/generation.pb.h"

// The error of a prompt that does not fit the context together with its output.
namespace lockstep::router {

// OpenAI's servers use the same words. Clients look for them and then shorten their prompt. Some
// clients look for the error's code in its message. `path`: the field that asks for too much.
absl::Status ContextOverflow(const lockstep::v1::GenerateRequest& request, uint32_t context_tokens,
                             uint64_t prompt_tokens, uint64_t completion_tokens,
                             std::string_view path);

// Marks an error with words of its own as such an error. OK stays OK.
absl::Status MarkOverflow(absl::Status status, std::string_view path);
// The field that asks for too much, if this is such an error.
std::optional<std::string> ContextOverflowPath(const absl::Status& status);

// Tokens of output that count in such an error. At least one token is generated.
uint32_t RequestedTokens(const lockstep::v1::GenerateRequest& request);

}  // namespace lockstep::router
