#include "router/http/dialects/anthropic/message_tools.h"

#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/json/json_text.h"
#include "common/shown_text.h"
#include "common/status.h"
#include "router/http/json/json_writer.h"
#include "router/serving/validation/tool_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

// Hints about caches and about how the answer is sent.
constexpr auto kIgnoredOfTools = std::to_array<std::string_view>(
    {"cache_control", "eager_input_streaming", "defer_loading", "allowed_callers"});

// The functions so far.
struct MessageTools {
  std::string array;  // in the form of OpenAI's `tools`; empty: none
  absl::flat_hash_set<std::string> names;
};

// `text`: the tool as it is written.
void ReadMessageTool(JsonFields& tool, std::string_view text, MessageTools& tools) {
  const std::string path = tool.PathOf("name");
  const std::optional<std::string> name = tool.String("name");
  const std::optional<std::string> description = tool.String("description");
  const std::optional<bool> strict = tool.Bool("strict");
  const json* const schema = tool.Find("input_schema");
  tool.Ignore(kIgnoredOfTools);
  if (!tool.ok()) return;
  if (name.value_or("").empty()) {
    return tool.Fail(InvalidArgument("{}: expected a name, got none", path));
  }
  tool.Fail(CheckToolName(path, *name));
  if (!tools.names.insert(*name).second) {
    return tool.Fail(
        InvalidArgument("{}: expected a name of its own, got {} again", path, Quote(*name)));
  }
  if (schema == nullptr) {
    return tool.Fail(
        InvalidArgument("{}: expected an object, got none", tool.PathOf("input_schema")));
  }
  if (!schema->is_object()) return tool.FailKind(tool.PathOf("input_schema"), "an object", *schema);
  std::string& out = tools.array;
  out += out.empty() ? '[' : ',';
  JsonWriter writer(out);
  writer.BeginObject().Key("type").String("function").Key("function").BeginObject();
  writer.Key("name").String(*name);
  if (description.has_value()) writer.Key("description").String(*description);
  if (strict.has_value()) writer.Key("strict").Bool(*strict);
  writer.Key("parameters").Raw(CompactJson(JsonTextOfMember(text, "input_schema")));
  writer.EndObject().EndObject();
}

void ReadMessageToolArray(JsonFields& fields, UnknownFields& unknown, MessageTools& tools) {
  const json* const array = fields.Find("tools");
  if (array == nullptr) return;
  if (!array->is_array()) return fields.FailKind("tools", "an array", *array);
  const std::vector<std::string_view> texts = JsonTextsOfElements(fields.BodyText("tools"));
  for (size_t i = 0; i < array->size() && fields.ok(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    JsonFields tool = fields.Inner((*array)[i], path);
    const std::string type = tool.String("type").value_or("custom");
    if (type == "custom") {
      ReadMessageTool(tool, texts[i], tools);
      fields.Fail(tool.Finish());
    } else if (tool.ok()) {
      fields.Fail(unknown.Add(path, type));
    }
  }
  if (!tools.array.empty()) tools.array += ']';
}

void ReadMessageToolChoice(JsonFields& choice, const MessageTools& tools, v1::ToolChoice& out) {
  const std::string type = choice.String("type").value_or("");
  const std::optional<std::string> name = choice.String("name");
  out.set_single(choice.Bool("disable_parallel_tool_use").value_or(false));
  if (!choice.ok()) return;
  if (type == "auto") {
    out.set_mode(v1::ToolChoice::AUTO);
  } else if (type == "none") {
    out.set_mode(v1::ToolChoice::NONE);
  } else if (type == "any") {
    out.set_mode(v1::ToolChoice::REQUIRED);
  } else if (type == "tool") {
    out.set_mode(v1::ToolChoice::REQUIRED);
    if (!tools.names.contains(name.value_or(""))) {
      return choice.Fail(InvalidArgument("{}: expected the name of a tool, got {}",
                                         choice.PathOf("name"),
                                         name.has_value() ? Quote(*name) : "none"));
    }
    out.set_function(*name);
  } else {
    choice.Fail(InvalidArgument("{}: expected auto, any, tool or none, got {}",
                                choice.PathOf("type"), Quote(type)));
  }
}

}  // namespace

void ReadMessageTools(JsonFields& fields, UnknownFields& unknown, v1::ChatPrompt& chat) {
  MessageTools tools;
  ReadMessageToolArray(fields, unknown, tools);
  const json* const value = fields.Find("tool_choice");
  v1::ToolChoice mode;
  if (value != nullptr) {
    JsonFields choice = fields.Inner(*value, "tool_choice");
    ReadMessageToolChoice(choice, tools, mode);
    fields.Fail(choice.Finish());
  }
  if (!tools.array.empty()) {
    chat.set_tools_json(std::move(tools.array));
    if (value != nullptr) *chat.mutable_tool_choice() = mode;
  } else if (mode.mode() == v1::ToolChoice::REQUIRED) {
    fields.Fail(InvalidArgument("tool_choice: expected with tools only"));
  }
}

}  // namespace lockstep::router
