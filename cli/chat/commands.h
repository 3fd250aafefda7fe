#pragma once

#include <string>
#include <string_view>

namespace lockstep::cli {

enum class ChatCommandKind { kMessage, kHelp, kReset, kSystem, kSave, kQuit, kUnknown };

// What a person typed: a message, or "/name argument".
struct ChatCommand {
  ChatCommandKind kind = ChatCommandKind::kMessage;
  std::string text;  // the message, the argument, or the unknown command's name
};

// Pure. The user types a second slash in front of a message that begins with a slash.
ChatCommand ParseChatCommand(std::string_view input);

// The answer to /help.
std::string ChatHelpText();
// The error for a command that does not exist. Names the nearest command.
std::string UnknownCommandText(std::string_view name);

}  // namespace lockstep::cli
