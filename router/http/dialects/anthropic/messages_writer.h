#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "router/http/dialects/anthropic/messages_request.h"
#include "router/http/dialects/dialect.h"

// Answers of Anthropic's /v1/messages: one message, or its events. A message has blocks of three
// kinds: thinking, text, and calls of tools (tool_use). One block is open at a time, and a change
// of kind opens the next one.
namespace lockstep::router {

// Tokens of a message so far.
struct MessageUsage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of prompt_tokens
  uint64_t output_tokens = 0;
  uint64_t thinking_tokens = 0;  // of output_tokens
};

// What the beginning and the end of a message say.
struct MessageFrame {
  std::string request_id;
  std::string model;
  uint32_t max_tokens = 0;
  bool names_tool = false;  // MessagesRequest::names_tool
};

// Why an output ended, in the words of the API.
struct MessageStop {
  std::string reason;
  std::optional<std::string> sequence = {};  // the stop sequence that came
};
// `num_calls`: tool_use blocks of the message.
MessageStop MessageStopOf(const lockstep::v1::Finish& finish, const MessageFrame& frame,
                          uint64_t output_tokens, size_t num_calls);

std::unique_ptr<AnswerWriter> MakeMessageWriter(MessageFrame frame, bool stream);

}  // namespace lockstep::router
