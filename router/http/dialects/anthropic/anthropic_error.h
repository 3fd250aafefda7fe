#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>

#include "router/http/dialects/openai/openai_error.h"

// Errors in the form of Anthropic's API.
namespace lockstep::router {

// The field that names a message to continue from, and the code of the error that none is kept. At
// this code clients send the conversation again.
inline constexpr std::string_view kPreviousMessageField = "thread.previous_message_id";
inline constexpr std::string_view kThreadNotFound = "thread_not_found";

// The error of this status, with fields named as bodies of /v1/messages name them. `status` must
// not be OK. If the prompt does not fit the context, the message begins with the words that clients
// look for. `code` is empty unless Anthropic's API has one.
OpenAiError MessagesErrorOf(const absl::Status& status);

// Anthropic's name for the kind of error that a status of HTTP stands for.
std::string_view AnthropicErrorType(int http_status);

// Appends {"type":"error","error":{"type":...,"message":...},"request_id":...}. `request_id` empty:
// null. The error has {"details":{"error_code":...}} too, unless `code` is empty.
void AppendAnthropicError(int http_status, std::string_view message, std::string_view request_id,
                          std::string& out, std::string_view code = {});

}  // namespace lockstep::router
