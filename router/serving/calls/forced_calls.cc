#include "router/serving/calls/forced_calls.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/status.h"
#include "router/constraints/constraint_limits.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kToolsPath = "chat.tools_json";
constexpr std::string_view kChoicePath = "chat.tool_choice";
// Looking for the tool at fault must not take much longer than the refusal itself.
constexpr std::chrono::seconds kLongestSearch(1);

// For the client of this call.
using ConstraintCheck = std::function<absl::Status(const Constraint&, std::string_view path)>;

std::string SchemaPath(const CallableTool& tool) {
  return fmt::format("{}[{}].function.parameters", kToolsPath, tool.index);
}

absl::StatusOr<Constraint> ConstraintOf(const OutputReading& reading,
                                        std::span<const CallableTool> tools,
                                        const Tokenizer& tokenizer) {
  absl::StatusOr<std::string> grammar =
      CallGrammar(reading.format, tools, reading.tools, reading.forced->grammar, tokenizer);
  if (!grammar.ok()) {
    return absl::Status(grammar.status().code(),
                        fmt::format("{}{}", kToolsPath, Message(grammar.status())));
  }
  return Constraint{.kind = ConstraintKind::kGrammar, .text = *std::move(grammar)};
}

// The engine has refused the tools together. Names the first one that it refuses alone.
absl::Status WhichTool(const OutputReading& reading, std::span<const CallableTool> tools,
                       const Tokenizer& tokenizer, const ConstraintCheck& check,
                       const absl::Status& all) {
  const auto begin = std::chrono::steady_clock::now();
  for (const CallableTool& tool : tools) {
    if (std::chrono::steady_clock::now() - begin > kLongestSearch) break;
    LOCKSTEP_ASSIGN_OR_RETURN(const Constraint alone,
                              ConstraintOf(reading, std::span(&tool, 1), tokenizer));
    LOCKSTEP_RETURN_IF_ERROR(check(alone, SchemaPath(tool)));
  }
  return all;
}

}  // namespace

absl::StatusOr<Constraint> CheckForcedCalls(const lockstep::v1::ChatPrompt& chat,
                                            const OutputReading& reading,
                                            const Tokenizer& tokenizer, ConstraintChecker& checker,
                                            const CancelFlag* cancellation) {
  const std::vector<CallableTool> tools =
      CallableTools(chat.tools_json(), chat.tool_choice().function());
  for (const CallableTool& tool : tools) {
    if (tool.parameters.empty()) continue;
    const Constraint schema{.kind = ConstraintKind::kJsonSchema, .text = tool.parameters};
    LOCKSTEP_RETURN_IF_ERROR(CheckConstraintLimits(schema, SchemaPath(tool)));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Constraint constraint, ConstraintOf(reading, tools, tokenizer));
  const ConstraintCheck check = [&](const Constraint& checked, std::string_view path) {
    return checker.Check(checked, path, cancellation);
  };
  const absl::Status status = check(constraint, kChoicePath);
  if (status.ok()) return constraint;
  if (!absl::IsInvalidArgument(status)) return status;
  return WhichTool(reading, tools, tokenizer, check, status);
}

}  // namespace lockstep::router
