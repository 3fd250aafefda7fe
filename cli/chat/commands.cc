#include "cli/chat/commands.h"

#include <absl/strings/ascii.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "common/nearest.h"

namespace lockstep::cli {
namespace {

struct CommandName {
  std::string_view name;
  ChatCommandKind kind;
  std::string_view usage;
  std::string_view help;
};
constexpr std::array<CommandName, 5> kCommands = {{
    {"/help", ChatCommandKind::kHelp, "/help", "lists the commands"},
    {"/reset", ChatCommandKind::kReset, "/reset", "starts over; a system message stays"},
    {"/system", ChatCommandKind::kSystem, "/system TEXT",
     "sets the system message, without TEXT removes it"},
    {"/save", ChatCommandKind::kSave, "/save FILE",
     "writes the chat to a new file: *.json, or plain text"},
    {"/quit", ChatCommandKind::kQuit, "/quit", "ends the chat, as Ctrl-D does"},
}};

std::string Stripped(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
}

}  // namespace

ChatCommand ParseChatCommand(std::string_view input) {
  if (input.starts_with("//")) return {ChatCommandKind::kMessage, std::string(input.substr(1))};
  if (!input.starts_with('/')) return {ChatCommandKind::kMessage, std::string(input)};
  const size_t end = std::min(input.find_first_of(" \t\n"), input.size());
  const std::string_view name = input.substr(0, end);
  const auto found = std::find_if(kCommands.begin(), kCommands.end(),
                                  [&](const CommandName& command) { return command.name == name; });
  if (found == kCommands.end()) return {ChatCommandKind::kUnknown, std::string(name)};
  return {found->kind, Stripped(input.substr(end))};
}

std::string ChatHelpText() {
  std::string out;
  for (const CommandName& command : kCommands) {
    out += fmt::format("  {:<14} {}\n", command.usage, command.help);
  }
  return out +
         "  A backslash at the end of a line goes on in the next one. Two slashes begin a message\n"
         "  that begins with a slash. Ctrl-C ends an answer, Ctrl-D the chat.\n";
}

std::string UnknownCommandText(std::string_view name) {
  std::vector<std::string_view> names;
  for (const CommandName& command : kCommands) names.push_back(command.name);
  const std::optional<std::string_view> nearest = Nearest(name, names);
  return fmt::format("{}: no such command{}; /help lists them", name,
                     nearest ? fmt::format("; did you mean {}?", *nearest) : "");
}

}  // namespace lockstep::cli
