#pragma once

#include <string>
#include <string_view>

#include "router/http/dialects/anthropic/messages_writer.h"
#include "router/http/json/json_writer.h"

// JSON that whole messages and events have in common.
namespace lockstep::router {

enum class MessageBlockKind { kThinking, kText, kToolUse };

// A block of a message. When a block begins, it has no text yet.
struct MessageBlock {
  MessageBlockKind kind = MessageBlockKind::kText;
  std::string id = {};    // of a call
  std::string name = {};  // of the called function
  std::string text = {};  // of a call: its arguments
};

// Writes {"id": ...} up to the member "content", whose value must follow.
void BeginMessage(const MessageFrame& frame, JsonWriter& json);
// Writes "stop_reason" and "stop_sequence".
void WriteStop(const MessageStop* stop, JsonWriter& json);
// Writes the value of "usage".
void WriteMessageUsage(const MessageUsage& usage, JsonWriter& json);
// A call whose arguments are no whole JSON object.
bool IsBrokenCall(const MessageBlock& block);
// The arguments of a broken call, and of one without arguments, become {}.
void WriteBlock(const MessageBlock& block, JsonWriter& json);
// Writes the value of "delta": the next piece of a block.
void WriteBlockDelta(MessageBlockKind kind, std::string_view piece, JsonWriter& json);

}  // namespace lockstep::router
