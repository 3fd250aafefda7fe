#include "router/serving/output/output_reading.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "router/serving/validation/constraint_field.h"
#include "router/serving/validation/tool_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;

// Templates begin reasoning within a few tokens of the prompt's end. An open message of the
// assistant may have begun it earlier.
constexpr size_t kTailTokens = 1024;

// The end of the prompt, special tokens spelled out.
std::string TailOf(const Tokenizer& tokenizer, std::span<const TokenId> prompt) {
  const std::span<const TokenId> tail = prompt.last(std::min(prompt.size(), kTailTokens));
  return tokenizer.Decode(tail, /*skip_special_tokens=*/false);
}

CallGrammarOptions::Reasoning ReasoningBeforeCalls(const OutputFormat& format, bool is_open,
                                                   std::string_view tail) {
  using Reasoning = CallGrammarOptions::Reasoning;
  if (is_open) return Reasoning::kOpen;
  const bool may_begin = HasReasoning(format) && !HasEndedReasoning(format, tail);
  return may_begin ? Reasoning::kOptional : Reasoning::kNone;
}

absl::StatusOr<OutputReading::Forced> ForcedCalls(const v1::ChatPrompt& chat,
                                                  const OutputFormat& format,
                                                  CallGrammarOptions::Reasoning reasoning) {
  if (!CanForceCalls(format)) {
    return Unimplemented("chat.tool_choice: forced calls of format {} are not implemented",
                         NameOf(format));
  }
  const v1::ToolChoice& choice = chat.tool_choice();
  const bool named = !choice.function().empty();
  return OutputReading::Forced{
      .grammar = {.single = named || choice.single(), .reasoning = reasoning}, .named = named};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OutputReading>> ReadingOf(const v1::GenerateRequest& request,
                                                               const ServedModel& model,
                                                               std::span<const TokenId> prompt) {
  if (model.output_format == nullptr || !request.has_chat()) return nullptr;
  // A constraint holds from the first token on, so all of the output is what it constrains.
  if (!ConstraintPath(request.sampling()).empty()) return nullptr;
  const OutputFormat& format = *model.output_format;
  const v1::OutputOptions& output = request.output();
  const bool parse_calls = OffersTools(request.chat()) && HasCalls(format);
  const bool wants_reasoning = !output.has_split_reasoning() || output.split_reasoning();
  const bool split_reasoning = wants_reasoning && HasReasoning(format);
  if (!parse_calls && !split_reasoning) return nullptr;
  absl::StatusOr<ToolList> tools =
      ToolList::Parse(parse_calls ? std::string_view(request.chat().tools_json()) : "");
  if (!tools.ok()) return InvalidArgument("chat.tools_json{}", Message(tools.status()));
  const std::string tail = HasReasoning(format) ? TailOf(*model.tokenizer, prompt) : "";
  const OutputParser::Options options = {
      .parse_calls = parse_calls,
      .split_reasoning = split_reasoning,
      .begins_in_reasoning = HasReasoning(format) && LeavesReasoningOpen(format, tail),
      .keep_special_tokens = output.has_skip_special_tokens() && !output.skip_special_tokens()};
  OutputReading reading{.format = format,
                        .tools = *std::move(tools),
                        .options = options,
                        .single_call = request.chat().tool_choice().single()};
  if (ForcesCall(request.chat())) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        reading.forced,
        ForcedCalls(request.chat(), format,
                    ReasoningBeforeCalls(format, options.begins_in_reasoning, tail)));
    reading.single_call = reading.forced->grammar.single;
  }
  return std::make_shared<const OutputReading>(std::move(reading));
}

}  // namespace lockstep::router
