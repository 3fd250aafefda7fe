#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lockstep/v1/generation.pb.h"
#include "router/http/json/json_fields.h"

namespace lockstep::router {

// Turns `system` and `messages` of a body into the messages of a chat. As in Anthropic's API,
// neighbours of the same role become one message. Results of tools become messages of role "tool"
// and come before the other text of their message. Blocks of text become lines. Errors stay in the
// fields.
class MessagesReader {
 public:
  // The chat must outlive the object.
  explicit MessagesReader(lockstep::v1::ChatPrompt& chat) : chat_(chat) {}

  // The fields are those of a body.
  void ReadSystem(JsonFields& fields);
  // If the last message is the assistant's, the output continues it.
  void ReadMessages(JsonFields& fields);

 private:
  // The message for further content of this role.
  lockstep::v1::ChatMessage& MessageOf(std::string_view role);
  // `text`: the message, or the array of blocks, as it is written.
  void ReadMessage(JsonFields& message, std::string_view text);
  void ReadBlocks(JsonFields& message, std::string_view role, const nlohmann::json& blocks,
                  std::string_view text);
  // Text goes to `rest`.
  void ReadUserBlock(JsonFields& block, const std::string& type, std::string& rest);
  void ReadAssistantBlock(JsonFields& block, const std::string& type, std::string_view text);
  void ReadToolResult(JsonFields& block);

  lockstep::v1::ChatPrompt& chat_;
};

}  // namespace lockstep::router
