#include "router/http/dialects/openai/body/tool_fields.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>

#include "common/shown_text.h"
#include "common/status.h"
#include "router/http/dialects/append_tool_call.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr std::string_view kFunction = "function";

// {"type": "function", "function": {"name": "f"}}
void ReadNamedChoice(JsonFields& fields, const json& value, v1::ToolChoice& choice) {
  JsonFields named = fields.Inner(value, "tool_choice");
  const std::string type = named.String("type").value_or("");
  const json* const function = named.Find(kFunction);
  if (named.ok() && type != kFunction) {
    named.Fail(Unimplemented("tool_choice.type: {} is not implemented", Quote(type)));
  } else if (function == nullptr) {
    named.Fail(InvalidArgument("tool_choice.function: expected an object, got none"));
  } else {
    JsonFields inner = named.Inner(*function, "tool_choice.function");
    choice.set_mode(v1::ToolChoice::REQUIRED);
    choice.set_function(inner.String("name").value_or(""));
    if (choice.function().empty()) {
      inner.Fail(InvalidArgument("tool_choice.function.name: expected a name, got none"));
    }
    named.Fail(inner.Finish());
  }
  fields.Fail(named.Finish());
}

void ReadToolChoice(JsonFields& fields, bool has_tools, v1::ChatPrompt& chat) {
  const json* const value = fields.Find("tool_choice");
  if (value == nullptr) return;
  const bool asks_for_nothing = *value == "auto" || *value == "none";
  if (!has_tools) {
    if (asks_for_nothing) return;
    return fields.Fail(InvalidArgument("tool_choice: expected with \"tools\" only"));
  }
  v1::ToolChoice& choice = *chat.mutable_tool_choice();
  if (value->is_object()) return ReadNamedChoice(fields, *value, choice);
  if (*value == "none") {
    choice.set_mode(v1::ToolChoice::NONE);
  } else if (*value == "required") {
    choice.set_mode(v1::ToolChoice::REQUIRED);
  } else if (*value != "auto") {
    fields.FailKind("tool_choice", R"("auto", "none", "required" or an object)", *value);
  }
}

// Appends one call in OpenAI's form.
void ReadCall(JsonFields& call, std::string& calls) {
  constexpr std::array<std::string_view, 1> kIgnoredOfCall = {"index"};  // of a stream's delta
  call.Ignore(kIgnoredOfCall);
  const std::optional<std::string> id = call.String("id");
  const std::string type = call.String("type").value_or(std::string(kFunction));
  if (type != kFunction) {
    return call.Fail(Unimplemented("{}: only calls of functions are implemented, got {}",
                                   call.PathOf("type"), Quote(type)));
  }
  const json* const value = call.Find(kFunction);
  if (value == nullptr) {
    return call.Fail(InvalidArgument("{}: expected an object, got none", call.PathOf(kFunction)));
  }
  JsonFields function = call.Inner(*value, call.PathOf(kFunction));
  const std::string name = function.String("name").value_or("");
  if (name.empty()) {
    function.Fail(
        InvalidArgument("{}: expected the name of a function, got none", function.PathOf("name")));
  }
  AppendToolCall(id, name, function.String("arguments").value_or(""), calls);
  call.Fail(function.Finish());
}

void ReadCalls(JsonFields& message, v1::ChatMessage& out) {
  const json* const calls = message.Find("tool_calls");
  const std::string path = message.PathOf("tool_calls");
  if (calls == nullptr) return;
  if (!calls->is_array()) return message.FailKind(path, "an array of calls", *calls);
  if (calls->empty()) return;
  if (out.role() != "assistant") {
    return message.Fail(InvalidArgument("{}: expected with role \"assistant\" only", path));
  }
  for (size_t i = 0; i < calls->size() && message.ok(); ++i) {
    JsonFields call = message.Inner((*calls)[i], fmt::format("{}[{}]", path, i));
    ReadCall(call, *out.mutable_tool_calls_json());
    message.Fail(call.Finish());
  }
}

}  // namespace

void ReadTools(JsonFields& fields, v1::ChatPrompt& chat) {
  const json* const tools = fields.Find("tools");
  if (tools != nullptr && !tools->is_array()) return fields.FailKind("tools", "an array", *tools);
  const bool has_tools = tools != nullptr && !tools->empty();
  if (has_tools) chat.set_tools_json(std::string(fields.BodyText("tools")));
  ReadToolChoice(fields, has_tools, chat);
  const bool single = !fields.Bool("parallel_tool_calls").value_or(true);
  if (single && has_tools) chat.mutable_tool_choice()->set_single(true);
}

void ReadToolFields(JsonFields& message, v1::ChatMessage& out) {
  ReadCalls(message, out);
  out.set_tool_call_id(message.String("tool_call_id").value_or(""));
  // Servers differ in the name, and clients give back what they got.
  const std::string reasoning = message.String("reasoning").value_or("");
  const std::string content = message.String("reasoning_content").value_or("");
  out.set_reasoning(reasoning.empty() ? content : reasoning);
}

}  // namespace lockstep::router
