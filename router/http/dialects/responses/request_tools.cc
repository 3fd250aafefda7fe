#include "router/http/dialects/responses/request_tools.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>

#include "common/json/json_text.h"
#include "common/status.h"
#include "router/http/dialects/responses/input_items.h"
#include "router/http/json/json_writer.h"
#include "router/serving/validation/field_checks.h"
#include "router/serving/validation/request_validator.h"
#include "router/serving/validation/tool_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr std::string_view kFunctionTool = "function";
constexpr std::string_view kCustomTool = "custom";
constexpr std::string_view kNoToolParameters =
    R"({"type":"object","properties":{},"additionalProperties":false})";

bool IsFunctionTool(std::string_view type) { return type == kFunctionTool || type == kCustomTool; }

// A function as the model sees it.
struct ResponseFunction {
  std::string name;
  std::string description;
  std::string parameters;      // JSON
  std::optional<bool> strict;  // absent: the client did not say

  std::string Json() const {
    std::string text;
    JsonWriter writer(text);
    writer.BeginObject().Key("type").String("function").Key("function").BeginObject();
    writer.Key("name").String(name);
    if (!description.empty()) writer.Key("description").String(description);
    writer.Key("parameters").Raw(parameters);
    if (strict.has_value()) writer.Key("strict").Bool(*strict);
    writer.EndObject().EndObject();
    return text;
  }
};

// The schema of a custom tool's one parameter.
std::string CustomToolParameters() {
  std::string text;
  JsonWriter writer(text);
  writer.BeginObject().Key("type").String("object").Key("properties").BeginObject();
  writer.Key(kCustomInput).BeginObject().Key("type").String("string").EndObject().EndObject();
  writer.Key("required").BeginArray().String(kCustomInput).EndArray();
  writer.Key("additionalProperties").Bool(false).EndObject();
  return text;
}

class ResponseToolReader {
 public:
  ResponseToolReader(JsonFields& fields, UnknownFields& unknown, std::vector<ResponseTool>& tools)
      : fields_(fields), unknown_(unknown), tools_(tools) {}

  void ReadList(const json& list, const std::string& path, std::string_view text,
                const std::string& name_space) {
    if (!list.is_array()) return fields_.FailKind(path, "an array", list);
    const std::vector<std::string_view> texts = JsonTextsOfElements(text);
    for (size_t i = 0; i < list.size() && fields_.ok(); ++i) {
      const std::string tool_path = fmt::format("{}[{}]", path, i);
      JsonFields tool = fields_.Inner(list[i], tool_path);
      const std::string type = tool.ok() ? RequiredName(tool, "type") : "";
      if (IsFunctionTool(type)) {
        ReadFunction(tool, texts[i], name_space, type == kCustomTool);
      } else if (tool.ok() && !name_space.empty()) {
        tool.Fail(InvalidArgument("{}: expected function or custom in a namespace, got {}",
                                  tool.PathOf("type"), Quote(type)));
      } else if (type == "namespace") {
        ReadNamespace(tool, texts[i]);
      } else if (tool.ok()) {
        LeaveOut(type, tool, tool_path);
      }
      fields_.Fail(tool.Finish());
    }
  }

  // JSON of the functions, in the order of `tools`.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  void ReadFunction(JsonFields& tool, std::string_view text, const std::string& name_space,
                    bool custom) {
    constexpr std::array<std::string_view, 4> kIgnored = {"defer_loading", "allowed_callers",
                                                          "output_schema", "async"};
    tool.Ignore(kIgnored);
    ResponseTool& out = tools_.emplace_back();
    out.name = ToolName(tool);
    out.name_space = name_space;
    out.flat_name = FlatToolName(name_space, out.name);
    if (tool.ok() && out.flat_name.size() > kMaxToolNameBytes) {
      tool.Fail(InvalidArgument("{}: expected at most {} characters with its namespace, got {}",
                                tool.PathOf("name"), kMaxToolNameBytes, Quote(out.flat_name)));
    }
    out.custom = custom;
    ResponseFunction function;
    function.name = out.flat_name;
    function.description = tool.String("description").value_or("");
    if (custom) {
      function.parameters = CustomToolParameters();
      ReadFormat(tool, function.description);
    } else {
      function.strict = tool.Bool("strict");
      function.parameters = ReadParameters(tool, text);
    }
    if (!names_.insert(out.flat_name).second) {
      tool.Fail(InvalidArgument("{}: expected a name that no other tool has, got {}",
                                tool.PathOf("name"), Quote(out.flat_name)));
    }
    if (tools_.size() > kMaxTools) {
      tool.Fail(CheckSize("tools", tools_.size(), kMaxTools, "tools"));
    }
    texts_.push_back(function.Json());
  }

  static std::string ReadParameters(JsonFields& tool, std::string_view text) {
    const json* const value = tool.Find("parameters");
    if (value == nullptr) return std::string(kNoToolParameters);
    if (!value->is_object()) tool.FailKind(tool.PathOf("parameters"), "an object", *value);
    return CompactJson(JsonTextOfMember(text, "parameters"));
  }

  // The model must know the grammar, because it sees no other description of the input.
  static void ReadFormat(JsonFields& tool, std::string& description) {
    const json* const value = tool.Find("format");
    if (value == nullptr) return;
    JsonFields format = tool.Inner(*value, tool.PathOf("format"));
    const std::string type = format.String("type").value_or("");
    if (type == "grammar") {
      const std::string syntax = RequiredName(format, "syntax");
      const std::string definition = format.String("definition").value_or("");
      if (!description.empty()) description += "\n\n";
      description += fmt::format("The input follows this grammar ({}):\n{}", syntax, definition);
    } else if (type != "text" && format.ok()) {
      format.Fail(InvalidArgument("{}: expected text or grammar, got {}", format.PathOf("type"),
                                  Quote(type)));
    }
    tool.Fail(format.Finish());
  }

  void ReadNamespace(JsonFields& tool, std::string_view text) {
    constexpr std::array<std::string_view, 1> kIgnored = {"description"};
    tool.Ignore(kIgnored);
    const std::string name = ToolName(tool);
    const json* const list = tool.Find("tools");
    if (!tool.ok() || list == nullptr) return;
    ReadList(*list, tool.PathOf("tools"), JsonTextOfMember(text, "tools"), name);
  }

  void LeaveOut(const std::string& type, JsonFields& tool, const std::string& path) {
    if (unknown_.refuses()) {
      return tool.Fail(Unimplemented("{}: tools of type {} are not implemented",
                                     tool.PathOf("type"), Quote(type)));
    }
    tool.IgnoreRest();
    tool.Fail(unknown_.Add(path, type));
  }

  // Of a function or a namespace.
  static std::string ToolName(JsonFields& fields) {
    std::string name = fields.RequiredString("name");
    if (fields.ok()) fields.Fail(CheckToolName(fields.PathOf("name"), name));
    return name;
  }

  static std::string RequiredName(JsonFields& fields, std::string_view name) {
    std::string value = fields.RequiredString(name);
    if (value.empty()) {
      fields.Fail(
          InvalidArgument("{}: expected at least 1 character, got none", fields.PathOf(name)));
    }
    fields.Fail(CheckId(fields.PathOf(name), value, kMaxIdBytes));
    return value;
  }

  JsonFields& fields_;
  UnknownFields& unknown_;
  std::vector<ResponseTool>& tools_;
  std::vector<std::string> texts_;
  std::set<std::string> names_;
};

// Which of the tools the model may call.
class ResponseChoiceReader {
 public:
  ResponseChoiceReader(JsonFields& fields, const std::vector<ResponseTool>& tools)
      : fields_(fields), tools_(tools), allowed_(tools.size(), true) {}

  void Read(v1::ToolChoice& out) {
    const json* const value = fields_.Find(kName);
    if (value == nullptr) return;
    if (value->is_string()) return SetMode(value->get<std::string>(), std::string(kName), out);
    if (!value->is_object()) return fields_.FailKind(std::string(kName), kExpected, *value);
    JsonFields choice = fields_.Inner(*value, std::string(kName));
    const std::string type = choice.String("type").value_or("");
    if (IsFunctionTool(type)) {
      const ResponseTool* const tool = ReadName(choice);
      out.set_mode(v1::ToolChoice::REQUIRED);
      if (tool != nullptr) out.set_function(tool->flat_name);
    } else if (type == "allowed_tools") {
      SetMode(choice.String("mode").value_or("auto"), choice.PathOf("mode"), out);
      ReadAllowed(choice);
    } else {
      choice.Fail(Unimplemented("{}: a choice of type {} is not implemented", choice.PathOf("type"),
                                Quote(type)));
    }
    fields_.Fail(choice.Finish());
  }

  bool Allows(size_t index) const { return allowed_[index]; }

 private:
  static constexpr std::string_view kName = "tool_choice";
  static constexpr std::string_view kExpected = "none, auto, required or an object";

  void SetMode(const std::string& mode, const std::string& path, v1::ToolChoice& out) {
    if (mode == "none") return out.set_mode(v1::ToolChoice::NONE);
    if (mode == "auto") return out.set_mode(v1::ToolChoice::AUTO);
    if (mode != "required") {
      return fields_.Fail(InvalidArgument("{}: expected {}, got {}", path, kExpected, Quote(mode)));
    }
    if (tools_.empty()) {
      return fields_.Fail(
          InvalidArgument("{}: \"required\" is expected with functions in tools only", path));
    }
    out.set_mode(v1::ToolChoice::REQUIRED);
  }

  // Null: an error.
  const ResponseTool* ReadName(JsonFields& choice) {
    const std::string name = choice.String("name").value_or("");
    const std::string name_space = choice.String("namespace").value_or("");
    if (!choice.ok()) return nullptr;
    const auto found = std::ranges::find_if(tools_, [&](const ResponseTool& tool) {
      return tool.flat_name == name ||
             (tool.name == name && (name_space.empty() || tool.name_space == name_space));
    });
    if (found != tools_.end()) return &*found;
    choice.Fail(InvalidArgument("{}: expected the name of one of the tools, got {}",
                                choice.PathOf("name"), Quote(name)));
    return nullptr;
  }

  void ReadAllowed(JsonFields& choice) {
    const json* const list = choice.Find("tools");
    if (list == nullptr || !list->is_array()) {
      return choice.FailKind(choice.PathOf("tools"), "an array", list == nullptr ? json() : *list);
    }
    allowed_.assign(tools_.size(), false);
    for (size_t i = 0; i < list->size() && choice.ok(); ++i) {
      JsonFields entry = choice.Inner((*list)[i], fmt::format("{}[{}]", choice.PathOf("tools"), i));
      const std::string type = entry.String("type").value_or("");
      if (IsFunctionTool(type)) {
        const ResponseTool* const tool = ReadName(entry);
        if (tool != nullptr) allowed_[static_cast<size_t>(tool - tools_.data())] = true;
      } else {
        entry.IgnoreRest();  // such tools are left out
      }
      choice.Fail(entry.Finish());
    }
  }

  JsonFields& fields_;
  const std::vector<ResponseTool>& tools_;
  std::vector<bool> allowed_;
};

}  // namespace

void ReadResponseTools(JsonFields& fields, UnknownFields& unknown, std::vector<ResponseTool>& tools,
                       v1::ChatPrompt& chat) {
  ResponseToolReader reader(fields, unknown, tools);
  if (const json* const list = fields.Find("tools")) {
    reader.ReadList(*list, "tools", fields.BodyText("tools"), "");
  }
  const bool parallel = fields.Bool("parallel_tool_calls").value_or(true);
  if (!fields.ok()) return;
  v1::ToolChoice choice;
  ResponseChoiceReader choices(fields, tools);
  choices.Read(choice);
  std::string all;
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!choices.Allows(i)) continue;
    all += all.empty() ? '[' : ',';
    all += reader.texts()[i];
  }
  if (all.empty() && choice.mode() == v1::ToolChoice::REQUIRED) {
    return fields.Fail(
        InvalidArgument("tool_choice.tools: expected at least one of the functions in tools"));
  }
  if (all.empty()) return;
  chat.set_tools_json(all + ']');
  choice.set_single(!parallel);
  *chat.mutable_tool_choice() = choice;
}

}  // namespace lockstep::router
