#include "router/http/dialects/anthropic/messages_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "common/json/json_text.h"
#include "common/sampling_numbers.h"
#include "common/status.h"
#include "router/http/dialects/anthropic/anthropic_error.h"
#include "router/http/dialects/anthropic/message_tools.h"
#include "router/http/dialects/anthropic/messages_reader.h"
#include "router/http/json/json_fields.h"
#include "router/http/json/json_writer.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {
namespace {

namespace v1 = lockstep::v1;
using nlohmann::json;

// Fields that do not affect the output here: bookkeeping of other services, and hints about caches.
constexpr auto kIgnoredOfBodies = std::to_array<std::string_view>(
    {"anthropic_beta", "anthropic_version", "betas", "cache_control", "container",
     "context_management", "diagnostics", "inference_geo", "metadata", "service_tier", "speed",
     "user_profile_id", "workspace_id"});

// Variables of the chat template.
struct TemplateArguments {
  std::optional<bool> enable_thinking;
  std::optional<std::string> reasoning_effort;
};

// No conversation is kept, so none can be continued. A client then sends the whole of it.
void CheckThread(JsonFields& fields) {
  const json* const value = fields.Find("thread");
  if (value == nullptr) return;
  JsonFields thread = fields.Inner(*value, "thread");
  const std::string type = thread.RequiredString("type");
  const std::optional<std::string> previous = thread.String("previous_message_id");
  if (type == "continue") {
    thread.Fail(
        NotFound("{}: no messages are kept here, so there is no {}; send the whole "
                 "conversation in messages",
                 kPreviousMessageField, Quote(previous.value_or(""))));
  } else if (type != "create") {
    thread.Fail(InvalidArgument("{}: expected create or continue, got {}", thread.PathOf("type"),
                                Quote(type)));
  }
  fields.Fail(thread.Finish());
}

void ReadThinking(JsonFields& fields, TemplateArguments& out) {
  const json* const value = fields.Find("thinking");
  if (value == nullptr) return;
  JsonFields thinking = fields.Inner(*value, "thinking");
  const std::string type = thinking.String("type").value_or("");
  if (type == "enabled" || type == "disabled") {
    out.enable_thinking = type == "enabled";
  } else if (type != "adaptive" && type != "between_tools") {
    thinking.Fail(InvalidArgument("{}: expected enabled, disabled or adaptive, got {}",
                                  thinking.PathOf("type"), Quote(type)));
  }
  fields.Fail(thinking.Finish());
}

// `text`: the format as it is written.
void ReadOutputFormat(JsonFields& owner, std::string_view name, std::string_view text,
                      v1::SamplingParams& sampling) {
  const json* const value = owner.Find(name);
  if (value == nullptr) return;
  JsonFields format = owner.Inner(*value, owner.PathOf(name));
  const std::string type = format.String("type").value_or("");
  const json* const schema = format.Find("schema");
  if (type != "json_schema") {
    format.Fail(
        InvalidArgument("{}: expected json_schema, got {}", format.PathOf("type"), Quote(type)));
  } else if (schema == nullptr) {
    format.Fail(InvalidArgument("{}: expected an object, got none", format.PathOf("schema")));
  } else if (!schema->is_object()) {
    format.FailKind(format.PathOf("schema"), "an object", *schema);
  } else {
    sampling.set_json_schema(CompactJson(JsonTextOfMember(text, "schema")));
  }
  owner.Fail(format.Finish());
}

void ReadOutputConfig(JsonFields& fields, TemplateArguments& arguments,
                      v1::SamplingParams& sampling) {
  if (const json* const value = fields.Find("output_config")) {
    JsonFields config = fields.Inner(*value, "output_config");
    arguments.reasoning_effort = config.String("effort");
    const std::string_view text = fields.BodyText("output_config");
    ReadOutputFormat(config, "format", JsonTextOfMember(text, "format"), sampling);
    fields.Fail(config.Finish());
  }
  // The name of a beta of the API.
  ReadOutputFormat(fields, "output_format", fields.BodyText("output_format"), sampling);
}

std::string ArgumentsJson(const TemplateArguments& arguments) {
  std::string out;
  if (!arguments.enable_thinking.has_value() && !arguments.reasoning_effort.has_value()) return out;
  JsonWriter writer(out);
  writer.BeginObject();
  if (arguments.enable_thinking.has_value()) {
    writer.Key("enable_thinking").Bool(*arguments.enable_thinking);
  }
  if (arguments.reasoning_effort.has_value()) {
    writer.Key("reasoning_effort").String(*arguments.reasoning_effort);
  }
  writer.EndObject();
  return out;
}

// What both paths read. An output's format goes to `sampling`.
void ReadMessagePrompt(JsonFields& fields, UnknownFields& unknown, v1::ChatPrompt& chat,
                       v1::SamplingParams& sampling) {
  CheckThread(fields);
  MessagesReader reader(chat);
  reader.ReadSystem(fields);
  reader.ReadMessages(fields);
  ReadMessageTools(fields, unknown, chat);
  TemplateArguments arguments;
  ReadThinking(fields, arguments);
  ReadOutputConfig(fields, arguments, sampling);
  chat.set_template_arguments_json(ArgumentsJson(arguments));
  fields.Ignore(kIgnoredOfBodies);
}

void ReadMessageSampling(JsonFields& fields, v1::SamplingParams& sampling) {
  if (const auto value = fields.Number("temperature")) {
    sampling.set_temperature(RaisedTemperature(*value));
  }
  if (const auto value = fields.Number("top_p")) sampling.set_top_p(*value);
  // -1 is off too.
  if (const auto value = fields.Integer("top_k", -1, std::numeric_limits<uint32_t>::max())) {
    sampling.set_top_k(static_cast<uint32_t>(std::max<int64_t>(*value, 0)));
  }
}

void ReadStopSequences(JsonFields& fields, v1::StopCriteria& stop) {
  const json* const sequences = fields.Find("stop_sequences");
  if (sequences == nullptr) return;
  if (!sequences->is_array()) {
    return fields.FailKind("stop_sequences", "an array of strings", *sequences);
  }
  for (size_t i = 0; i < sequences->size(); ++i) {
    const json& sequence = (*sequences)[i];
    if (!sequence.is_string()) {
      return fields.FailKind(fmt::format("stop_sequences[{}]", i), "a string", sequence);
    }
    stop.add_stop(sequence.get<std::string>());
  }
}

// A client that does not know how large the context is asks for more than there is room for. The
// output then ends with its own reason.
void ReadMessageMaxTokens(JsonFields& fields, const BodyReading& reading, MessagesRequest& out,
                          v1::StopCriteria& stop) {
  const uint32_t most_tokens = reading.max_context_tokens - 1;
  const std::optional<uint32_t> max_tokens = fields.Uint32("max_tokens", 1, most_tokens);
  if (!max_tokens.has_value()) {
    return fields.Fail(
        InvalidArgument("max_tokens: expected an integer from 1 to {}, got none", most_tokens));
  }
  out.max_tokens = *max_tokens;
  stop.set_max_tokens(*max_tokens);
  stop.set_fit_max_tokens(true);
}

}  // namespace

absl::StatusOr<MessagesRequest> ParseMessagesRequest(std::string_view body,
                                                     const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  MessagesRequest out;
  v1::GenerateRequest& request = out.prompts.emplace_back();
  request.set_model(fields.String("model").value_or(""));
  out.stream = fields.Bool("stream").value_or(false);
  ReadMessageMaxTokens(fields, reading, out, *request.mutable_stop());
  ReadStopSequences(fields, *request.mutable_stop());
  ReadMessageSampling(fields, *request.mutable_sampling());
  ReadMessagePrompt(fields, unknown, *request.mutable_chat(), *request.mutable_sampling());
  out.names_tool = !request.chat().tool_choice().function().empty();
  request.set_session_id(std::string(reading.session_id));
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  return out;
}

absl::StatusOr<TokenizeQuery> ParseCountTokensRequest(std::string_view body,
                                                      const BodyReading& reading) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json parsed, ParseBody(body, reading.meter));
  UnknownFields unknown(reading.strict_fields);
  JsonFields fields(parsed, unknown, "", body);
  TokenizeQuery out;
  out.request.set_model(fields.String("model").value_or(""));
  v1::SamplingParams unused;
  ReadMessagePrompt(fields, unknown, *out.request.mutable_chat(), unused);
  constexpr auto kOfOutputs = std::to_array<std::string_view>(
      {"max_tokens", "stop_sequences", "stream", "temperature", "top_k", "top_p"});
  fields.Ignore(kOfOutputs);
  LOCKSTEP_RETURN_IF_ERROR(fields.Finish());
  out.ignored_fields = unknown.list();
  return out;
}

}  // namespace lockstep::router
