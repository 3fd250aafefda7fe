#include "router/http/dialects/openai/body/thinking_fields.h"

#include <algorithm>
#include <array>
#include <optional>

#include "common/shown_text.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

using nlohmann::json;

constexpr std::string_view kSwitch = "enable_thinking";
constexpr std::string_view kEffort = "reasoning_effort";
constexpr auto kEfforts =
    std::to_array<std::string_view>({"none", "minimal", "low", "medium", "high", "xhigh", "max"});

constexpr auto kUnservedOfReasoning = std::to_array<UnservedField>({
    {"max_tokens"},
    {"exclude", "[false]"},
});
constexpr auto kUnservedOfThinking = std::to_array<UnservedField>({
    {"budget_tokens"},
});

void SetSwitch(std::optional<bool> value, ThinkingArguments& out) {
  if (value.has_value()) out[kSwitch] = *value ? "true" : "false";
}

void SetEffort(JsonFields& fields, std::string_view name, ThinkingArguments& out) {
  const std::optional<std::string> effort = fields.String(name);
  if (!effort.has_value()) return;
  if (!IsEffort(*effort)) {
    return fields.FailKind(fields.PathOf(name),
                           R"("none", "minimal", "low", "medium", "high", "xhigh" or "max")",
                           json(*effort));
  }
  if (*effort == "none") {
    SetSwitch(false, out);
  } else {
    out[kEffort] = json(*effort).dump();
  }
}

// {"effort": "low"}, {"enabled": false}
void ReadReasoning(JsonFields& fields, ThinkingArguments& out) {
  const json* const value = fields.Find("reasoning");
  if (value == nullptr) return;
  JsonFields reasoning = fields.Inner(*value, "reasoning");
  SetEffort(reasoning, "effort", out);
  SetSwitch(reasoning.Bool("enabled"), out);
  reasoning.Refuse(kUnservedOfReasoning);
  fields.Fail(reasoning.Finish());
}

// {"type": "enabled"}, {"type": "disabled"}
void ReadThinkingObject(JsonFields& fields, ThinkingArguments& out) {
  const json* const value = fields.Find("thinking");
  if (value == nullptr) return;
  JsonFields thinking = fields.Inner(*value, "thinking");
  const std::string type = thinking.String("type").value_or("");
  if (type == "enabled" || type == "disabled") {
    SetSwitch(type == "enabled", out);
  } else {
    thinking.Fail(InvalidArgument("thinking.type: expected \"enabled\" or \"disabled\", got {}",
                                  Quote(type)));
  }
  thinking.Refuse(kUnservedOfThinking);
  fields.Fail(thinking.Finish());
}

}  // namespace

bool IsEffort(std::string_view word) { return std::ranges::find(kEfforts, word) != kEfforts.end(); }

ThinkingArguments ReadThinking(JsonFields& fields) {
  ThinkingArguments out;
  SetEffort(fields, kEffort, out);
  ReadReasoning(fields, out);
  ReadThinkingObject(fields, out);
  SetSwitch(fields.Bool(kSwitch), out);
  return out;
}

}  // namespace lockstep::router
