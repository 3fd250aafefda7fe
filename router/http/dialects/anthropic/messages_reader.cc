#include "router/http/dialects/anthropic/messages_reader.h"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include "common/json/json.h"
#include "common/json/json_text.h"
#include "common/status.h"
#include "router/http/dialects/append_tool_call.h"
#include "router/serving/prompts/tool_calls_json.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr std::string_view kUserRole = "user";
constexpr std::string_view kAssistantRole = "assistant";
constexpr std::string_view kSystemRole = "system";
constexpr std::string_view kToolRole = "tool";
// Claude Code puts such a block before all others. It differs from request to request, so the
// prompts would have no common beginning, and the prefix cache would never hit.
constexpr std::string_view kBillingBlock = "x-anthropic-billing-header:";

constexpr JsonLimits kInputLimits = {.max_depth = kMaxArgumentsDepth,
                                     .max_values = kMaxArgumentsValues};

// Bookkeeping of other services, and what says how a block came about.
constexpr auto kIgnoredOfBlocks =
    std::to_array<std::string_view>({"cache_control", "citations", "caller", "toolset_name"});

void AppendTextLine(std::string_view line, std::string& text) {
  if (!text.empty() && !line.empty()) text += '\n';
  text += line;
}

void RefuseBlock(JsonFields& block, const std::string& type) {
  block.Fail(Unimplemented("{}: blocks of type {} are not implemented", block.PathOf("type"),
                           Quote(type)));
}

// The kinds of blocks that only one role has.
void RefuseRole(JsonFields& block, std::string_view role, const std::string& type) {
  block.Fail(InvalidArgument("{}: expected a block that messages of role {} have, got {}",
                             block.PathOf("type"), role, Quote(type)));
}

void ReadToolUse(JsonFields& block, std::string_view text, std::string& calls) {
  const std::string id = block.RequiredString("id");
  const std::string name = block.RequiredString("name");
  const json* const input = block.Find("input");
  if (input != nullptr && !input->is_object()) {
    return block.FailKind(block.PathOf("input"), "an object", *input);
  }
  std::string arguments = "{}";
  if (input != nullptr) {
    const std::string_view input_text = JsonTextOfMember(text, "input");
    // The template could not see it as an object.
    block.Fail(ParseJson(input_text, block.PathOf("input"), kInputLimits).status());
    arguments = CompactJson(input_text);
  }
  AppendToolCall(id, name, arguments, calls);
}

// A string, or an array of blocks of text from `first` on, which become lines of one text.
std::string ReadTextBlocks(JsonFields& owner, const json& value, const std::string& path,
                           size_t first = 0) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    owner.FailKind(path, "a string or an array of blocks", value);
    return {};
  }
  std::string text;
  for (size_t i = first; i < value.size() && owner.ok(); ++i) {
    JsonFields block = owner.Inner(value[i], fmt::format("{}[{}]", path, i));
    const std::string type = block.RequiredString("type");
    if (type == "text") {
      AppendTextLine(block.RequiredString("text"), text);
    } else {
      RefuseBlock(block, type);
    }
    block.Ignore(kIgnoredOfBlocks);
    owner.Fail(block.Finish());
  }
  return text;
}

bool BeginsWithBilling(const json& system) {
  if (!system.is_array() || system.empty() || !system.front().is_object()) return false;
  const auto text = system.front().find("text");
  return text != system.front().end() && text->is_string() &&
         text->get_ref<const std::string&>().starts_with(kBillingBlock);
}

}  // namespace

void MessagesReader::ReadSystem(JsonFields& fields) {
  const json* const system = fields.Find("system");
  if (system == nullptr) return;
  std::string content =
      ReadTextBlocks(fields, *system, fields.PathOf("system"), BeginsWithBilling(*system) ? 1 : 0);
  if (!content.empty()) MessageOf(kSystemRole).set_content(std::move(content));
}

void MessagesReader::ReadMessages(JsonFields& fields) {
  const json* const messages = fields.Find("messages");
  if (messages != nullptr && !messages->is_array()) {
    return fields.FailKind("messages", "an array", *messages);
  }
  if (messages == nullptr || messages->empty()) {
    return fields.Fail(InvalidArgument("messages: expected at least 1 message, got none"));
  }
  const std::vector<std::string_view> texts = JsonTextsOfElements(fields.BodyText("messages"));
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    JsonFields message = fields.Inner((*messages)[i], fmt::format("messages[{}]", i));
    ReadMessage(message, texts[i]);
    fields.Fail(message.Finish());
  }
  if (!fields.ok() || chat_.messages().empty()) return;
  const v1::ChatMessage& last = chat_.messages(chat_.messages_size() - 1);
  if (last.role() != kAssistantRole) return;
  if (!last.tool_calls_json().empty()) {
    return fields.Fail(
        InvalidArgument("messages: expected the results of the last message's tool_use blocks in a "
                        "message of role user after it, got none"));
  }
  chat_.set_continue_final_message(true);
}

v1::ChatMessage& MessagesReader::MessageOf(std::string_view role) {
  const int num_messages = chat_.messages_size();
  if (role != kToolRole && num_messages > 0 && chat_.messages(num_messages - 1).role() == role) {
    return *chat_.mutable_messages(num_messages - 1);
  }
  v1::ChatMessage& message = *chat_.add_messages();
  message.set_role(std::string(role));
  return message;
}

void MessagesReader::ReadMessage(JsonFields& message, std::string_view text) {
  const std::string role = message.RequiredString("role");
  const std::string path = message.PathOf("content");
  const json* const content = message.Find("content");
  if (role != kUserRole && role != kAssistantRole && role != kSystemRole) {
    return message.Fail(InvalidArgument("{}: expected user, assistant or system, got {}",
                                        message.PathOf("role"), Quote(role)));
  }
  if (content == nullptr) {
    return message.Fail(
        InvalidArgument("{}: expected a string or an array of blocks, got none", path));
  }
  if (!content->is_array() || role == kSystemRole) {
    const std::string line = ReadTextBlocks(message, *content, path);
    return AppendTextLine(line, *MessageOf(role).mutable_content());
  }
  ReadBlocks(message, role, *content, JsonTextOfMember(text, "content"));
}

void MessagesReader::ReadBlocks(JsonFields& message, std::string_view role, const json& blocks,
                                std::string_view text) {
  const std::string path = message.PathOf("content");
  const std::vector<std::string_view> texts = JsonTextsOfElements(text);
  std::string rest;  // of a user's message, behind the results
  bool has_results = false;
  if (role == kAssistantRole) MessageOf(role);
  for (size_t i = 0; i < blocks.size() && message.ok(); ++i) {
    JsonFields block = message.Inner(blocks[i], fmt::format("{}[{}]", path, i));
    const std::string type = block.RequiredString("type");
    if (role == kAssistantRole) {
      ReadAssistantBlock(block, type, texts[i]);
    } else if (type == "tool_result") {
      ReadToolResult(block);
      has_results = true;
    } else {
      ReadUserBlock(block, type, rest);
    }
    block.Ignore(kIgnoredOfBlocks);
    message.Fail(block.Finish());
  }
  if (role == kUserRole && (!has_results || !rest.empty())) {
    AppendTextLine(rest, *MessageOf(role).mutable_content());
  }
}

void MessagesReader::ReadUserBlock(JsonFields& block, const std::string& type, std::string& rest) {
  if (type == "text") return AppendTextLine(block.RequiredString("text"), rest);
  if (type == "tool_use" || type == "thinking" || type == "redacted_thinking") {
    return RefuseRole(block, kUserRole, type);
  }
  RefuseBlock(block, type);
}

void MessagesReader::ReadAssistantBlock(JsonFields& block, const std::string& type,
                                        std::string_view text) {
  v1::ChatMessage& out = MessageOf(kAssistantRole);
  if (type == "text") {
    AppendTextLine(block.RequiredString("text"), *out.mutable_content());
  } else if (type == "thinking") {
    AppendTextLine(block.RequiredString("thinking"), *out.mutable_reasoning());
    block.Find("signature");
  } else if (type == "redacted_thinking") {
    block.Find("data");  // only its author can read it
  } else if (type == "tool_use") {
    ReadToolUse(block, text, *out.mutable_tool_calls_json());
  } else if (type == "tool_result") {
    RefuseRole(block, kAssistantRole, type);
  } else {
    RefuseBlock(block, type);
  }
}

void MessagesReader::ReadToolResult(JsonFields& block) {
  v1::ChatMessage& out = MessageOf(kToolRole);
  out.set_tool_call_id(block.RequiredString("tool_use_id"));
  // The text of an error says that it is one.
  block.Bool("is_error");
  const json* const content = block.Find("content");
  if (content != nullptr) out.set_content(ReadTextBlocks(block, *content, block.PathOf("content")));
}

}  // namespace lockstep::router
