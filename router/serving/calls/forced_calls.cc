#include "router/serving/calls/forced_calls.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <span>
#include <string>
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

static_assert(kMaxCallGrammarBytes == kMaxConstraintBytes,
              "a grammar of calls is refused with the tools' path, and not as a constraint");

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

}  // namespace

absl::Status WhichTool(const absl::Status& all, size_t num_tools,
                       const std::function<absl::Status(size_t)>& check_alone) {
  const auto begin = std::chrono::steady_clock::now();
  for (size_t i = 0; i < num_tools; ++i) {
    if (std::chrono::steady_clock::now() - begin > kLongestSearch) break;
    const absl::Status alone = check_alone(i);
    if (alone.ok()) continue;
    const bool is_verdict = absl::IsInvalidArgument(alone) || absl::IsUnimplemented(alone);
    return is_verdict ? alone : all;
  }
  return all;
}

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
  absl::Status status = checker.Check(constraint, kChoicePath, cancellation);
  if (status.ok()) return constraint;
  if (!absl::IsInvalidArgument(status)) return status;
  return WhichTool(status, tools.size(), [&](size_t i) -> absl::Status {
    LOCKSTEP_ASSIGN_OR_RETURN(const Constraint alone,
                              ConstraintOf(reading, std::span(&tools[i], 1), tokenizer));
    return checker.Check(alone, SchemaPath(tools[i]), cancellation);
  });
}

}  // namespace lockstep::router
