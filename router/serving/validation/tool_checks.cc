#include "router/serving/validation/tool_checks.h"

#include <algorithm>
#include <set>

#include "common/json/json.h"
#include "common/status.h"
#include "router/calls/tool_list.h"
#include "router/serving/validation/constraint_field.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr JsonLimits kToolsLimits = {.max_depth = kMaxToolsDepth, .max_values = 200'000};
constexpr std::string_view kFunction = "function";

bool IsToolNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// Sets `name`.
absl::Status CheckTool(const json& tool, const std::string& path, std::string& name) {
  if (!tool.is_object()) {
    return InvalidArgument("{}: expected an object, got {}", path, DescribeJson(tool));
  }
  const auto type = tool.find("type");
  if (type == tool.end() || !type->is_string()) {
    return InvalidArgument("{}.type: expected a string such as \"function\"", path);
  }
  if (*type != kFunction) {
    return Unimplemented("{}.type: only functions are implemented, got {}", path,
                         Quote(type->get_ref<const std::string&>()));
  }
  const std::string function_path = path + ".function";
  const auto function = tool.find(kFunction);
  if (function == tool.end() || !function->is_object()) {
    return InvalidArgument("{}: expected an object", function_path);
  }
  const auto named = function->find("name");
  if (named == function->end() || !named->is_string()) {
    return InvalidArgument("{}.name: expected a string", function_path);
  }
  const auto parameters = function->find("parameters");
  if (parameters != function->end() && !parameters->is_object() && !parameters->is_null()) {
    return InvalidArgument("{}.parameters: expected a JSON schema, got {}", function_path,
                           DescribeJson(*parameters));
  }
  name = named->get<std::string>();
  return CheckToolName(function_path + ".name", name);
}

// The names of the tools.
absl::StatusOr<std::set<std::string>> CheckToolList(const std::string& tools_json,
                                                    const std::string& path, uint32_t max_tools) {
  const absl::StatusOr<json> tools = ParseJson(tools_json, path, kToolsLimits);
  if (!tools.ok()) return InvalidArgument("{}", Message(tools.status()));
  if (!tools->is_array() || tools->empty()) {
    return InvalidArgument("{}: expected an array of tools, got {}", path, DescribeJson(*tools));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSize(path, tools->size(), max_tools, "tools"));
  std::set<std::string> names;
  for (size_t i = 0; i < tools->size(); ++i) {
    const std::string tool_path = fmt::format("{}[{}]", path, i);
    std::string name;
    LOCKSTEP_RETURN_IF_ERROR(CheckTool((*tools)[i], tool_path, name));
    if (!names.insert(name).second) {
      return InvalidArgument("{}.function.name: expected another name, got {} again", tool_path,
                             Quote(name));
    }
  }
  return names;
}

absl::Status CheckToolChoice(const v1::ToolChoice& choice, const std::string& path,
                             const std::set<std::string>& names) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKnownFields(path, choice));
  if (!v1::ToolChoice::Mode_IsValid(choice.mode())) {
    return Unimplemented("{}.mode: {} is not known to this router", path,
                         static_cast<int>(choice.mode()));
  }
  if (choice.mode() != v1::ToolChoice::REQUIRED) {
    if (choice.function().empty()) return absl::OkStatus();
    return InvalidArgument("{}.function: expected with mode REQUIRED only", path);
  }
  if (choice.function().empty() || names.contains(choice.function())) return absl::OkStatus();
  return InvalidArgument("{}.function: expected the name of one of the tools, got {}", path,
                         Quote(choice.function()));
}

}  // namespace

absl::Status CheckToolName(std::string_view path, std::string_view name) {
  if (!name.empty() && name.size() <= kMaxToolNameBytes &&
      std::ranges::all_of(name, IsToolNameCharacter)) {
    return absl::OkStatus();
  }
  return InvalidArgument("{}: expected 1 to {} characters of [a-zA-Z0-9_.-], got {}", path,
                         kMaxToolNameBytes, Quote(name));
}

bool OffersTools(const v1::ChatPrompt& chat) {
  return !chat.tools_json().empty() && chat.tool_choice().mode() != v1::ToolChoice::NONE;
}

bool ForcesCall(const v1::ChatPrompt& chat) {
  return !chat.tools_json().empty() && chat.tool_choice().mode() == v1::ToolChoice::REQUIRED;
}

absl::Status CheckForcedCall(const v1::GenerateRequest& request, bool enforces_constraints) {
  constexpr std::string_view kPath = "chat.tool_choice";
  // The call is a constraint itself.
  if (!ConstraintPath(request.sampling()).empty()) {
    return InvalidArgument("{}: expected no forced call beside a constraint of the output", kPath);
  }
  if (request.stop().ignore_eos()) {
    return InvalidArgument("stop.ignore_eos: expected false beside a forced call, got true");
  }
  if (enforces_constraints) return absl::OkStatus();
  return Unimplemented("{}: a forced call needs a constraint engine, and this router has none",
                       kPath);
}

absl::Status CheckTools(const v1::ChatPrompt& chat, const std::string& path,
                        const RequestLimits& limits, const ModelFacts& model) {
  if (chat.tools_json().empty()) {
    if (!chat.has_tool_choice()) return absl::OkStatus();
    return InvalidArgument("{}.tool_choice: expected with tools only", path);
  }
  const std::string tools_path = path + ".tools_json";
  LOCKSTEP_RETURN_IF_ERROR(
      CheckSize(tools_path, chat.tools_json().size(), limits.max_prompt_bytes, "bytes"));
  if (OffersTools(chat) && !model.parses_calls) {
    return Unimplemented(
        "{}: the way in which model {} writes calls of tools is unknown; --tool-format sets it",
        tools_path, Quote(model.id));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::set<std::string> names,
                            CheckToolList(chat.tools_json(), tools_path, limits.max_tools));
  return CheckToolChoice(chat.tool_choice(), path + ".tool_choice", names);
}

absl::Status CheckToolFields(const v1::ChatMessage& message, const std::string& path) {
  const bool is_assistant = message.role() == "assistant";
  if (!message.tool_calls_json().empty() && !is_assistant) {
    return InvalidArgument("{}.tool_calls_json: expected with role \"assistant\" only", path);
  }
  if (!message.reasoning().empty() && !is_assistant) {
    return InvalidArgument("{}.reasoning: expected with role \"assistant\" only", path);
  }
  if (!message.tool_call_id().empty() && message.role() != "tool") {
    return InvalidArgument("{}.tool_call_id: expected with role \"tool\" only", path);
  }
  return CheckSize(path + ".tool_call_id", message.tool_call_id().size(), kMaxToolCallIdBytes,
                   "bytes");
}

}  // namespace lockstep::router
