#include "router/http/dialects/responses/input_items.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "common/json/json.h"
#include "common/status.h"
#include "router/http/dialects/append_tool_call.h"
#include "router/http/dialects/responses/responses_request.h"
#include "router/http/json/json_writer.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr std::string_view kItemAssistant = "assistant";
constexpr std::string_view kItemSystem = "system";
constexpr std::string_view kItemTool = "tool";

void JoinItemText(std::string_view line, std::string_view separator, std::string& text) {
  if (!text.empty() && !line.empty()) text += separator;
  text += line;
}

// The text of one part of a content.
std::string TextOfPart(JsonFields& part) {
  constexpr std::array<std::string_view, 5> kTexts = {"input_text", "output_text", "text",
                                                      "reasoning_text", "summary_text"};
  constexpr std::array<std::string_view, 3> kIgnored = {"annotations", "logprobs",
                                                        "prompt_cache_breakpoint"};
  part.Ignore(kIgnored);
  const std::string type = part.RequiredString("type");
  if (type == "refusal") return part.RequiredString("refusal");
  if (std::ranges::find(kTexts, type) != kTexts.end()) return part.RequiredString("text");
  part.Fail(
      Unimplemented("{}: parts of type {} are not implemented", part.PathOf("type"), Quote(type)));
  return {};
}

// A string, or an array of parts, which become lines of one text.
std::string TextOfItem(JsonFields& item, std::string_view name, const json& value) {
  const std::string path = item.PathOf(name);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) {
    item.FailKind(path, "a string or an array of parts", value);
    return {};
  }
  std::string text;
  for (size_t i = 0; i < value.size() && item.ok(); ++i) {
    JsonFields part = item.Inner(value[i], fmt::format("{}[{}]", path, i));
    if (i > 0) text += '\n';
    if (part.ok()) text += TextOfPart(part);
    item.Fail(part.Finish());
  }
  return text;
}

std::string ItemText(JsonFields& item, std::string_view name) {
  if (const json* const value = item.Find(name)) return TextOfItem(item, name, *value);
  item.Fail(
      InvalidArgument("{}: expected a string or an array of parts, got none", item.PathOf(name)));
  return {};
}

// Turns items into messages. Errors go to `fields`.
class ItemReader {
 public:
  ItemReader(JsonFields& fields, v1::ChatPrompt& chat) : fields_(fields), chat_(chat) {}

  void AddSystem(const std::string& text) {
    const bool first = chat_.messages_size() == 1 && chat_.messages(0).role() == kItemSystem;
    v1::ChatMessage& message = first ? *chat_.mutable_messages(0) : Add(kItemSystem);
    JoinItemText(text, "\n\n", *message.mutable_content());
  }

  void ReadItem(const json& value, const std::string& path) {
    JsonFields item = fields_.Inner(value, path);
    constexpr std::array<std::string_view, 2> kIgnored = {"id", "status"};
    item.Ignore(kIgnored);
    const std::string type = item.ok() ? TypeOf(item) : "";
    if (item.ok()) Dispatch(type, item);
    fields_.Fail(item.Finish());
  }

  // Call after the last item.
  void Finish() {
    if (!reasoning_.empty()) AddAssistant();
  }

 private:
  v1::ChatMessage& Add(std::string_view role) {
    v1::ChatMessage& message = *chat_.add_messages();
    message.set_role(role.data(), role.size());
    return message;
  }
  // Takes the reasoning that came before.
  v1::ChatMessage& AddAssistant() {
    v1::ChatMessage& message = Add(kItemAssistant);
    message.set_reasoning(std::exchange(reasoning_, {}));
    return message;
  }
  // The last message if it is an assistant's, else null.
  v1::ChatMessage* OpenAssistant() {
    const int size = chat_.messages_size();
    if (size == 0 || chat_.messages(size - 1).role() != kItemAssistant) return nullptr;
    return chat_.mutable_messages(size - 1);
  }

  static std::string TypeOf(JsonFields& item) {
    if (const std::optional<std::string> type = item.String("type")) return *type;
    if (!item.ok()) return {};
    if (item.Find("role") != nullptr) return "message";
    if (item.Find("id") != nullptr) return "item_reference";
    item.Fail(InvalidArgument("{}: expected a type of item, got none", item.PathOf("type")));
    return {};
  }

  void Dispatch(const std::string& type, JsonFields& item) {
    if (type == "message") return ReadMessage(item);
    if (type == "reasoning") return ReadReasoning(item);
    if (type == "function_call") return ReadCall(item, /*custom=*/false);
    if (type == "custom_tool_call") return ReadCall(item, /*custom=*/true);
    if (type == "function_call_output" || type == "custom_tool_call_output") {
      return ReadCallOutput(item);
    }
    if (type == "item_reference") {
      return item.Fail(Unimplemented(
          "{}: no items are kept here, so none can be referred to; send the item itself",
          item.PathOf("type")));
    }
    item.Fail(Unimplemented("{}: items of type {} are not implemented", item.PathOf("type"),
                            Quote(type)));
  }

  void ReadMessage(JsonFields& item) {
    constexpr std::array<std::string_view, 1> kIgnored = {"phase"};
    item.Ignore(kIgnored);
    const std::string role = item.String("role").value_or("");
    const std::string text = item.ok() ? ItemText(item, "content") : "";
    if (!item.ok()) return;
    if (role == kItemSystem || role == "developer") {
      EndTurn();
      return AddSystem(text);
    }
    if (role == "user") {
      EndTurn();
      return Add(role).set_content(text);
    }
    if (role != kItemAssistant) {
      return item.Fail(
          InvalidArgument("{}: expected one of user, assistant, system, developer, got {}",
                          item.PathOf("role"), Quote(role)));
    }
    v1::ChatMessage* const last = OpenAssistant();
    const bool joins = last != nullptr && !last->tool_calls_json().empty();
    v1::ChatMessage& message = joins ? Joined(*last) : AddAssistant();
    JoinItemText(text, "\n", *message.mutable_content());
  }

  // Reasoning without a message is a message of its own.
  void EndTurn() {
    if (!reasoning_.empty()) AddAssistant();
  }
  v1::ChatMessage& Joined(v1::ChatMessage& message) {
    JoinItemText(std::exchange(reasoning_, {}), "\n", *message.mutable_reasoning());
    return message;
  }

  void ReadReasoning(JsonFields& item) {
    constexpr std::array<std::string_view, 2> kIgnored = {"summary", "encrypted_content"};
    item.Ignore(kIgnored);
    const json* const content = item.Find("content");
    if (content == nullptr) return;
    JoinItemText(TextOfItem(item, "content", *content), "\n", reasoning_);
  }

  void ReadCall(JsonFields& item, bool custom) {
    constexpr std::array<std::string_view, 2> kIgnored = {"caller", "async"};
    item.Ignore(kIgnored);
    const std::string id = item.RequiredString("call_id");
    const std::string name =
        FlatToolName(item.String("namespace").value_or(""), item.RequiredString("name"));
    std::string arguments = item.RequiredString(custom ? kCustomInput : "arguments");
    if (!item.ok()) return;
    if (custom) {
      const std::string text = std::move(arguments);
      arguments.clear();
      JsonWriter(arguments).BeginObject().Key(kCustomInput).String(text).EndObject();
    }
    v1::ChatMessage* const last = OpenAssistant();
    // A message without calls does not take reasoning that came after it.
    const bool joins = last != nullptr && (reasoning_.empty() || !last->tool_calls_json().empty());
    v1::ChatMessage& message = joins ? Joined(*last) : AddAssistant();
    AppendToolCall(id, name, arguments, *message.mutable_tool_calls_json());
  }

  void ReadCallOutput(JsonFields& item) {
    constexpr std::array<std::string_view, 3> kIgnored = {"caller", "name", "namespace"};
    item.Ignore(kIgnored);
    const std::string id = item.RequiredString("call_id");
    const std::string text = ItemText(item, "output");
    if (!item.ok()) return;
    EndTurn();
    v1::ChatMessage& message = Add(kItemTool);
    message.set_tool_call_id(id);
    message.set_content(text);
  }

  JsonFields& fields_;
  v1::ChatPrompt& chat_;
  std::string reasoning_;  // of the assistant's next message
};

}  // namespace

std::string FlatToolName(const std::string& name_space, const std::string& name) {
  constexpr std::string_view kSeparator = "__";
  if (name_space.empty()) return name;
  // Many namespaces end with the separator.
  return fmt::format("{}{}{}", name_space, name_space.ends_with(kSeparator) ? "" : kSeparator,
                     name);
}

void ReadInput(JsonFields& fields, v1::ChatPrompt& chat) {
  ItemReader reader(fields, chat);
  if (const std::optional<std::string> text = fields.String("instructions")) {
    if (!text->empty()) reader.AddSystem(*text);
  }
  const json* const input = fields.Find("input");
  if (input == nullptr) {
    return fields.Fail(InvalidArgument("input: expected a string or an array of items, got none"));
  }
  if (input->is_string()) {
    v1::ChatMessage* const message = chat.add_messages();
    message->set_role("user");
    message->set_content(input->get<std::string>());
    return;
  }
  if (!input->is_array()) return fields.FailKind("input", "a string or an array of items", *input);
  for (size_t i = 0; i < input->size() && fields.ok(); ++i) {
    reader.ReadItem((*input)[i], fmt::format("input[{}]", i));
  }
  reader.Finish();
}

}  // namespace lockstep::router
