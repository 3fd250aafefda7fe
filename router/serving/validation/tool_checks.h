#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/serving/validation/request_validator.h"

// Checks what a chat says about tools. Pure. Errors as in request_validator.h.
namespace lockstep::router {

// Anthropic's API allows as much, and OpenAI's half of it.
inline constexpr size_t kMaxToolNameBytes = 128;
inline constexpr size_t kMaxToolCallIdBytes = 256;

// The name of a tool. A dialect that has its own form of tools checks it at the client's path.
absl::Status CheckToolName(std::string_view path, std::string_view name);

// The tools, and the choice among them. `path`: of the chat.
absl::Status CheckTools(const lockstep::v1::ChatPrompt& chat, const std::string& path,
                        const RequestLimits& limits, const ModelFacts& model);

// Calls, results and reasoning belong to messages of certain roles. What calls hold is checked when
// they are rendered (tool_calls_json.h).
absl::Status CheckToolFields(const lockstep::v1::ChatMessage& message, const std::string& path);

// True: the model sees tools, and may call them.
bool OffersTools(const lockstep::v1::ChatPrompt& chat);
// True: its output must call one.
bool ForcesCall(const lockstep::v1::ChatPrompt& chat);

// What else a request that forces a call may have. `enforces_constraints`: there is an engine.
absl::Status CheckForcedCall(const lockstep::v1::GenerateRequest& request,
                             bool enforces_constraints);

}  // namespace lockstep::router
