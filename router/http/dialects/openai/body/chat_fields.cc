#include "router/http/dialects/openai/body/chat_fields.h"

#include <array>
#include <string>
#include <string_view>

#include "common/json/json.h"
#include "common/status.h"
#include "router/http/dialects/openai/body/thinking_fields.h"
#include "router/http/dialects/openai/body/tool_fields.h"
#include "router/http/dialects/openai/body/unserved_fields.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr std::string_view kTemplateArguments = "chat_template_kwargs";

// Reads a string, or an array of {"type": "text"} parts, which become lines of one text. Only an
// assistant's content may be absent.
std::string ReadContent(JsonFields& message, const std::string& role, const std::string& path) {
  const json* const value = message.Find("content");
  if (value == nullptr) {
    if (role == "assistant") return {};
    message.Fail(InvalidArgument("{}: expected a string, got none", path));
    return {};
  }
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_array()) {
    message.FailKind(path, "a string or an array of parts", *value);
    return {};
  }
  std::string text;
  for (size_t i = 0; i < value->size(); ++i) {
    JsonFields part = message.Inner((*value)[i], fmt::format("{}[{}]", path, i));
    const std::string type = part.String("type").value_or("text");
    if (type != "text") {
      message.Fail(Unimplemented("{}: parts of type {} are not implemented", part.PathOf("type"),
                                 Quote(type)));
      return {};
    }
    if (i > 0) text += '\n';
    text += part.RequiredString("text");
    message.Fail(part.Finish());
  }
  return text;
}

void ReadMessages(JsonFields& fields, v1::ChatPrompt& chat) {
  const json* const messages = fields.Find("messages");
  if (messages == nullptr) {
    return fields.Fail(InvalidArgument("messages: expected at least 1 message, got none"));
  }
  if (!messages->is_array()) return fields.FailKind("messages", "an array", *messages);
  constexpr std::array<std::string_view, 2> kIgnoredOfMessage = {"refusal", "annotations"};
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    JsonFields message = fields.Inner((*messages)[i], fmt::format("messages[{}]", i));
    v1::ChatMessage* const out = chat.add_messages();
    out->set_role(message.String("role").value_or(""));
    message.Refuse(UnservedOfMessages());
    out->set_content(ReadContent(message, out->role(), message.PathOf("content")));
    out->set_name(message.String("name").value_or(""));
    ReadToolFields(message, *out);
    message.Ignore(kIgnoredOfMessage);
    fields.Fail(message.Finish());
  }
}

// Adds template arguments to `given`, which are the client's. `own` comes from fields of the body,
// such as reasoning_effort. The client's argument wins over one of the same name.
std::string WithArguments(const ThinkingArguments& own, const json& given, std::string_view text) {
  std::string out = "{";
  const auto separate = [&out] {
    if (out.size() > 1) out += ',';
  };
  for (const auto& [name, value] : own) {
    if (given.contains(name)) continue;
    separate();
    out += fmt::format("\"{}\":{}", name, value);
  }
  if (!given.empty()) {
    separate();
    out += RewriteJson(text, [](std::string string) { return string; }).substr(1);
  } else {
    out += '}';
  }
  return out;
}

void ReadTemplateFields(JsonFields& fields, v1::ChatPrompt& chat) {
  if (const auto value = fields.Bool("add_generation_prompt")) {
    chat.set_add_generation_prompt(*value);
  }
  chat.set_continue_final_message(fields.Bool("continue_final_message").value_or(false));
  const json* const given = fields.Find(kTemplateArguments);
  if (given != nullptr && !given->is_object()) {
    return fields.FailKind(std::string(kTemplateArguments), "an object", *given);
  }
  const ThinkingArguments own = ReadThinking(fields);
  if (own.empty() && (given == nullptr || given->empty())) return;
  chat.set_template_arguments_json(WithArguments(own, given == nullptr ? json::object() : *given,
                                                 fields.BodyText(kTemplateArguments)));
}

}  // namespace

void ReadChat(JsonFields& fields, v1::ChatPrompt& chat) {
  fields.Refuse(UnservedOfChats());
  ReadMessages(fields, chat);
  ReadTools(fields, chat);
  ReadTemplateFields(fields, chat);
}

}  // namespace lockstep::router
