#include "router/http/dialects/openai/body/openai_request.h"

#include <algorithm>
#include <limits>

#include "common/status.h"
#include "router/http/dialects/openai/body/chat_fields.h"
#include "router/http/dialects/openai/body/constraint_fields.h"
#include "router/http/dialects/openai/body/request_fields.h"
#include "router/http/dialects/openai/body/unserved_fields.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr uint32_t kDefaultCompletionTokens = 16;

void SetPromptIds(v1::GenerateRequest& request, const std::vector<uint32_t>& ids) {
  request.clear_parse_special();  // only for texts
  request.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
}

// A string, an array of ids, or an array of either, which is a batch.
void ReadPrompts(JsonFields& fields, const v1::GenerateRequest& rest, OpenAiRequest& out) {
  const json* const prompt = fields.Find("prompt");
  if (prompt == nullptr) return fields.Fail(InvalidArgument("prompt: expected one, got none"));
  if (prompt->is_string()) {
    out.prompts.emplace_back(rest).set_text(prompt->get<std::string>());
    return;
  }
  if (!prompt->is_array() || prompt->empty()) {
    return fields.FailKind("prompt", "a string, token ids, or an array of those", *prompt);
  }
  if ((*prompt)[0].is_number()) {
    return SetPromptIds(out.prompts.emplace_back(rest), fields.TokenIdsOf(*prompt, "prompt"));
  }
  if (prompt->size() > kMaxPromptsPerRequest) {
    return fields.Fail(CheckSize("prompt", prompt->size(), kMaxPromptsPerRequest, "prompts"));
  }
  // Every prompt gets a copy of the shared fields.
  if (rest.ByteSizeLong() > kMaxSharedBytes) {
    return fields.Fail(InvalidArgument(
        "prompt: with several prompts all other fields together take at most {} bytes, got {}",
        kMaxSharedBytes, rest.ByteSizeLong()));
  }
  out.lists_prompts = true;
  for (size_t i = 0; i < prompt->size() && fields.ok(); ++i) {
    const json& element = (*prompt)[i];
    v1::GenerateRequest& request = out.prompts.emplace_back(rest);
    if (element.is_string()) {
      request.set_text(element.get<std::string>());
    } else {
      SetPromptIds(request, fields.TokenIdsOf(element, fmt::format("prompt[{}]", i)));
    }
  }
}

void ReadCompletionOutput(JsonFields& fields, const BodyReading& reading, AnswerOptions& options,
                          v1::GenerateRequest& request) {
  options.echo = fields.Bool("echo").value_or(false);
  if (const auto value = fields.Bool("parse_special")) request.set_parse_special(*value);
  const uint32_t most_tokens = reading.max_context_tokens - 1;
  uint32_t max_tokens =
      fields.Uint32("max_tokens", 0, most_tokens).value_or(kDefaultCompletionTokens);
  if (max_tokens == 0) {
    options.prompt_only = true;
    max_tokens = 1;
  }
  request.mutable_stop()->set_max_tokens(max_tokens);
  if (const auto count = fields.Uint32("logprobs", 0, reading.limits.max_logprobs)) {
    options.logprobs = true;
    request.mutable_output()->set_logprobs(*count);
    if (options.echo) {
      options.echo_logprobs = *count;
      request.mutable_output()->set_prompt_logprobs(
          std::max(*count, options.prompt_logprobs.value_or(0)));
    }
  }
  if (options.echo && request.has_truncate_prompt_tokens()) {
    fields.Fail(InvalidArgument("truncate_prompt_tokens: expected without \"echo\": true"));
  }
}

void ReadChatOutput(JsonFields& fields, const BodyReading& reading, AnswerOptions& options,
                    v1::GenerateRequest& request) {
  const uint32_t most_tokens = reading.max_context_tokens - 1;
  const std::optional<uint32_t> max_tokens = fields.Uint32("max_tokens", 1, most_tokens);
  const std::optional<uint32_t> max_completion_tokens =
      fields.Uint32("max_completion_tokens", 1, most_tokens);
  if (max_completion_tokens.has_value() || max_tokens.has_value()) {
    request.mutable_stop()->set_max_tokens(
        max_completion_tokens.has_value() ? *max_completion_tokens : *max_tokens);
  }
  options.logprobs = fields.Bool("logprobs").value_or(false);
  const std::optional<uint32_t> top = fields.Uint32("top_logprobs", 0, reading.limits.max_logprobs);
  if (top.value_or(0) > 0 && !options.logprobs) {
    fields.Fail(InvalidArgument("top_logprobs: expected with \"logprobs\": true only"));
  }
  if (options.logprobs) request.mutable_output()->set_logprobs(top.value_or(0));
  options.include_reasoning = fields.Bool("include_reasoning").value_or(true);
}

}  // namespace

absl::StatusOr<OpenAiRequest> ParseCompletionRequest(std::string_view body,
                                                     const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  OpenAiRequest out;
  v1::GenerateRequest request;
  ReadCommonFields(fields, reading, out, request);
  ReadConstraintFields(fields, *request.mutable_sampling());
  ReadCompletionOutput(fields, reading, out.options, request);
  fields.Refuse(UnservedOfCompletions());
  ReadPrompts(fields, request, out);
  if (!out.request_id.empty()) out.SetRequestId(out.request_id);
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  return out;
}

absl::StatusOr<OpenAiRequest> ParseChatRequest(std::string_view body, const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  OpenAiRequest out;
  v1::GenerateRequest& request = out.prompts.emplace_back();
  ReadCommonFields(fields, reading, out, request);
  ReadConstraintFields(fields, *request.mutable_sampling());
  ReadChatOutput(fields, reading, out.options, request);
  ReadChat(fields, *request.mutable_chat());
  if (!out.request_id.empty()) out.SetRequestId(out.request_id);
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  return out;
}

}  // namespace lockstep::router
