#include "router/serving/prompts/tool_calls_json.h"

#include <utility>

#include "common/json/json.h"
#include "common/status.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

// Arguments are a text inside, with limits of their own.
constexpr JsonLimits kCallsLimits = {.max_depth = 8, .max_values = 32 * kMaxToolCallsPerMessage};
constexpr JsonLimits kArgumentsLimits = {.max_depth = kMaxArgumentsDepth,
                                         .max_values = kMaxArgumentsValues};

// The text of the member; empty if it is absent or null.
absl::StatusOr<std::string> TextMember(const json& object, const std::string& path,
                                       std::string_view name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::string();
  if (found->is_string()) return found->get<std::string>();
  return InvalidArgument("{}.{}: expected a string, got {}", path, name, DescribeJson(*found));
}

std::string ArgumentsForTemplate(const std::string& arguments) {
  if (arguments.empty()) return "{}";
  const absl::StatusOr<json> parsed = ParseJson(arguments, "arguments", kArgumentsLimits);
  // A model may have written anything, and the client only gives it back.
  if (!parsed.ok() || !parsed->is_object()) return json(arguments).dump();
  return RewriteJson(arguments, [](std::string text) { return text; });
}

absl::StatusOr<std::string> CallForTemplate(const json& call, const std::string& path) {
  if (!call.is_object()) {
    return InvalidArgument("{}: expected an object, got {}", path, DescribeJson(call));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string id, TextMember(call, path, "id"));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string type, TextMember(call, path, "type"));
  if (!type.empty() && type != "function") {
    return Unimplemented("{}.type: only calls of functions are implemented, got {}", path,
                         Quote(type));
  }
  const auto function = call.find("function");
  const std::string function_path = path + ".function";
  if (function == call.end() || !function->is_object()) {
    return InvalidArgument("{}: expected an object", function_path);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, TextMember(*function, function_path, "name"));
  if (name.empty()) {
    return InvalidArgument("{}.name: expected the name of a function, got none", function_path);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string arguments,
                            TextMember(*function, function_path, "arguments"));
  return fmt::format(R"({{{}"type":"function","function":{{"name":{},"arguments":{}}}}})",
                     id.empty() ? "" : fmt::format(R"("id":{},)", json(id).dump()),
                     json(name).dump(), ArgumentsForTemplate(arguments));
}

}  // namespace

absl::StatusOr<std::string> ToolCallsForTemplate(std::string_view text, const std::string& path) {
  const absl::StatusOr<json> calls = ParseJson(text, path, kCallsLimits);
  if (!calls.ok()) return InvalidArgument("{}", Message(calls.status()));
  if (!calls->is_array() || calls->empty()) {
    return InvalidArgument("{}: expected an array of calls, got {}", path, DescribeJson(*calls));
  }
  LOCKSTEP_RETURN_IF_ERROR(CheckSize(path, calls->size(), kMaxToolCallsPerMessage, "calls"));
  std::string out = "[";
  for (size_t i = 0; i < calls->size(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string call,
                              CallForTemplate((*calls)[i], fmt::format("{}[{}]", path, i)));
    if (i > 0) out += ',';
    out += call;
  }
  return out + "]";
}

}  // namespace lockstep::router
