#include "router/http/dialects/responses/responses_request.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "common/hash.h"
#include "common/json/json_text.h"
#include "common/status.h"
#include "router/http/dialects/openai/body/request_fields.h"
#include "router/http/dialects/openai/body/thinking_fields.h"
#include "router/http/dialects/responses/input_items.h"
#include "router/http/dialects/responses/request_echo.h"
#include "router/http/dialects/responses/request_tools.h"
#include "router/http/dialects/responses/unserved_response_fields.h"
#include "router/serving/validation/field_checks.h"
#include "router/serving/validation/request_validator.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

constexpr std::string_view kResponseTemplateArguments = "chat_template_kwargs";
constexpr std::string_view kIncludeLogprobs = "message.output_text.logprobs";

// Returns whether log-probabilities are asked for.
bool ReadIncludesLogprobs(JsonFields& fields) {
  const json* const value = fields.Find("include");
  if (value == nullptr) return false;
  if (!value->is_array()) {
    fields.FailKind("include", "an array of strings", *value);
    return false;
  }
  bool logprobs = false;
  for (size_t i = 0; i < value->size(); ++i) {
    const json& name = (*value)[i];
    if (!name.is_string()) fields.FailKind(fmt::format("include[{}]", i), "a string", name);
    logprobs = logprobs || name == kIncludeLogprobs;
  }
  return logprobs;
}

void ReadResponseOutput(JsonFields& fields, const BodyReading& reading, AnswerOptions& options,
                        v1::GenerateRequest& request) {
  const uint32_t most_tokens = reading.max_context_tokens - 1;
  if (const auto value = fields.Uint32("max_output_tokens", 1, most_tokens)) {
    request.mutable_stop()->set_max_tokens(*value);
  }
  options.logprobs = ReadIncludesLogprobs(fields);
  const std::optional<uint32_t> top = fields.Uint32("top_logprobs", 0, reading.limits.max_logprobs);
  if (top.value_or(0) > 0 && !options.logprobs) {
    fields.Fail(
        InvalidArgument("top_logprobs: expected with \"{}\" in include only", kIncludeLogprobs));
  }
  if (options.logprobs) request.mutable_output()->set_logprobs(top.value_or(0));
}

void ReadTextFormat(JsonFields& fields, v1::SamplingParams& sampling) {
  constexpr std::array<std::string_view, 3> kIgnored = {"name", "description", "strict"};
  const json* const format_value = fields.Find("format");
  if (format_value == nullptr) return;
  JsonFields format = fields.Inner(*format_value, fields.PathOf("format"));
  format.Ignore(kIgnored);
  const std::string type = format.String("type").value_or("");
  if (type == "json_schema") {
    const json* const schema = format.Find("schema");
    if (schema == nullptr || !schema->is_object()) {
      format.FailKind(format.PathOf("schema"), "an object", schema == nullptr ? json() : *schema);
    } else {
      const std::string_view text = JsonTextOfMember(fields.BodyText("text"), "format");
      sampling.set_json_schema(CompactJson(JsonTextOfMember(text, "schema")));
    }
  } else if (type == "json_object") {
    sampling.set_json_object(true);
  } else if (type != "text" && format.ok()) {
    format.Fail(InvalidArgument("{}: expected text, json_object or json_schema, got {}",
                                format.PathOf("type"), Quote(type)));
  }
  fields.Fail(format.Finish());
}

void ReadTextSettings(JsonFields& fields, v1::SamplingParams& sampling) {
  const json* const value = fields.Find("text");
  if (value == nullptr) return;
  JsonFields inner = fields.Inner(*value, "text");
  if (inner.ok()) ReadTextFormat(inner, sampling);
  inner.Refuse(UnservedOfText());
  fields.Fail(inner.Finish());
}

// Returns the effort, or "".
std::string ReadEffort(JsonFields& fields) {
  // The answer has the reasoning itself, so a summary of it is not needed.
  constexpr std::array<std::string_view, 4> kIgnored = {"summary", "generate_summary", "context",
                                                        "mode"};
  const json* const value = fields.Find("reasoning");
  if (value == nullptr) return {};
  JsonFields reasoning = fields.Inner(*value, "reasoning");
  reasoning.Ignore(kIgnored);
  std::string effort = reasoning.String("effort").value_or("");
  if (!effort.empty() && !IsEffort(effort)) {
    reasoning.Fail(
        InvalidArgument("{}: expected one of none, minimal, low, medium, high, xhigh, max, got {}",
                        reasoning.PathOf("effort"), Quote(effort)));
  }
  fields.Fail(reasoning.Finish());
  return effort;
}

// The template's variables: those of the request, and one for the effort unless the request has it.
void ReadResponseTemplate(JsonFields& fields, const std::string& effort, v1::ChatPrompt& chat) {
  const json* const given = fields.Find(kResponseTemplateArguments);
  if (given != nullptr && !given->is_object()) {
    return fields.FailKind(std::string(kResponseTemplateArguments), "an object", *given);
  }
  std::string arguments = given == nullptr || given->empty()
                              ? "{}"
                              : CompactJson(fields.BodyText(kResponseTemplateArguments));
  const std::string_view name = effort == "none" ? "enable_thinking" : "reasoning_effort";
  if (!effort.empty() && (given == nullptr || !given->contains(name))) {
    const std::string value = effort == "none" ? "false" : fmt::format("\"{}\"", effort);
    const std::string_view separator = arguments == "{}" ? "" : ",";
    arguments.insert(1, fmt::format("\"{}\":{}{}", name, value, separator));
  }
  if (arguments != "{}") chat.set_template_arguments_json(std::move(arguments));
}

// A hint about which worker has the prompt's beginning. Any text is allowed at OpenAI, but not in
// an id.
void ReadCacheKey(JsonFields& fields, v1::GenerateRequest& request) {
  const std::string key = fields.String("prompt_cache_key").value_or("");
  if (key.empty() || !request.session_id().empty()) return;
  const bool is_id = CheckId("", key, kMaxIdBytes).ok();
  request.set_session_id(is_id ? key : fmt::format("key-{:016x}", Hash64(key)));
}

void CheckMetadata(JsonFields& fields) {
  const json* const value = fields.Find("metadata");
  if (value == nullptr) return;
  const bool fits = value->is_object() && std::all_of(value->begin(), value->end(),
                                                      [](auto& text) { return text.is_string(); });
  if (!fits) fields.FailKind("metadata", "an object of strings", *value);
}

void CheckPrevious(JsonFields& fields) {
  const std::optional<std::string> id = fields.String("previous_response_id");
  if (!id.has_value() || !fields.ok()) return;
  fields.Fail(
      NotFound("previous_response_id: no answers are kept here, so there is no {}; send "
               "the whole conversation in input",
               Quote(*id)));
}

}  // namespace

absl::StatusOr<ResponsesRequest> ParseResponsesRequest(std::string_view body,
                                                       const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  ResponsesRequest out;
  v1::GenerateRequest& request = out.prompts.emplace_back();
  v1::ChatPrompt& chat = *request.mutable_chat();
  CheckPrevious(fields);
  fields.Refuse(UnservedOfResponses());
  ReadCommonFields(fields, reading, out, request);
  ReadResponseOutput(fields, reading, out.options, request);
  ReadInput(fields, chat);
  ReadResponseTools(fields, unknown, out.tools, chat);
  ReadTextSettings(fields, *request.mutable_sampling());
  ReadResponseTemplate(fields, ReadEffort(fields), chat);
  ReadCacheKey(fields, request);
  CheckMetadata(fields);
  // Responses are never kept.
  fields.Bool("store");
  fields.Ignore(IgnoredOfResponses());
  if (!out.request_id.empty()) out.SetRequestId(out.request_id);
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  out.echo = RequestEcho(parsed, body);
  return out;
}

}  // namespace lockstep::router
