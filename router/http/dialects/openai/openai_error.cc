#include "router/http/dialects/openai/openai_error.h"

#include <absl/strings/cord.h>

#include <algorithm>
#include <array>
#include <optional>

#include "common/status.h"
#include "router/http/json/json_writer.h"
#include "router/serving/validation/client_message.h"
#include "router/serving/validation/context_overflow.h"
#include "router/serving/validation/retry_hint.h"

namespace lockstep::router {
namespace {

constexpr auto kNames = std::to_array<FieldName>({
    {"output.logprobs", "top_logprobs"},  // of chats only: their "logprobs" is a switch
    {"sampling.json_object", "response_format"},
    {"sampling.json_schema", "response_format"},
    {"sampling.regex", "structured_outputs.regex"},
    {"sampling.choice", "structured_outputs.choice"},
    {"sampling.grammar", "structured_outputs.grammar"},
    {"sampling.", ""},
    {"stop.", ""},
    {"output.", ""},
    {"token_ids.ids", "prompt"},
    {"token_ids", "prompt"},
    {"text", "prompt"},
    {"chat.template_arguments_json", "chat_template_kwargs"},
    {"chat.tools_json", "tools"},
    {"chat.", ""},
    {"chat", "messages"},
    {"input", "prompt"},
});

bool IsPathCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '[' || c == ']';
}

// "top_p" of "top_p: expected ..."; empty if no field comes first.
std::string_view FieldOf(std::string_view message) {
  const size_t colon = message.find(": ");
  if (colon == std::string_view::npos) return {};
  const std::string_view field = message.substr(0, colon);
  return std::all_of(field.begin(), field.end(), IsPathCharacter) ? field : std::string_view();
}

void SetKind(const absl::Status& status, OpenAiError& error) {
  const auto set = [&error](int http_status, std::string_view type, std::string_view code) {
    error.http_status = http_status;
    error.type = type;
    error.code = code;
  };
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return set(400, "invalid_request_error",
                 ContextOverflowPath(status).has_value() ? "context_length_exceeded" : "");
    case absl::StatusCode::kOutOfRange:
      return set(413, "invalid_request_error", "");
    case absl::StatusCode::kUnimplemented:
      return set(400, "invalid_request_error", "unsupported_parameter");
    case absl::StatusCode::kUnauthenticated:
      return set(401, "authentication_error", "invalid_api_key");
    case absl::StatusCode::kPermissionDenied:
      return set(403, "permission_error", "");
    case absl::StatusCode::kNotFound:
      return set(404, "invalid_request_error", "model_not_found");
    case absl::StatusCode::kCancelled:
      return set(499, "invalid_request_error", "cancelled");
    case absl::StatusCode::kResourceExhausted:
      error.retry = true;
      return set(429, "rate_limit_exceeded", "server_overloaded");
    case absl::StatusCode::kUnavailable:
      error.retry = true;
      return set(503, "server_error", "unavailable");
    case absl::StatusCode::kDeadlineExceeded:
      return set(504, "server_error", "deadline_exceeded");
    default:
      return set(500, "server_error", "");
  }
}

}  // namespace

FieldNames CompletionFieldNames() { return FieldNames(kNames).subspan(1); }
FieldNames ChatFieldNames() { return kNames; }

std::string WithJsonFieldName(std::string_view message, FieldNames names) {
  const std::string_view field = FieldOf(message);
  for (const FieldName& name : names) {
    if (!field.starts_with(name.path)) continue;
    const std::string_view rest = field.substr(name.path.size());
    const bool whole_name = name.path.ends_with('.') || rest.empty() || rest[0] == '[';
    if (whole_name) {
      return std::string(name.json_name) + std::string(message.substr(name.path.size()));
    }
  }
  return std::string(message);
}

absl::Status OfListedPrompt(const absl::Status& status, size_t index) {
  constexpr std::string_view kPrompt = "prompt";
  std::string message = WithJsonFieldName(Message(status), CompletionFieldNames());
  const std::string_view field = FieldOf(message);
  if (field == kPrompt || field.starts_with("prompt[")) {
    message.insert(kPrompt.size(), fmt::format("[{}]", index));
  } else if (ContextOverflowPath(status).has_value()) {
    message = fmt::format("{}[{}]: {}", kPrompt, index, message);
  } else {
    return status;
  }
  absl::Status named(status.code(), message);
  status.ForEachPayload([&named](absl::string_view type, const absl::Cord& payload) {
    named.SetPayload(type, payload);
  });
  return named;
}

OpenAiError OpenAiError::Of(const absl::Status& status, FieldNames names) {
  OpenAiError error;
  SetKind(status, error);
  const bool about_a_field = error.http_status == 400 || error.http_status == 404;
  error.message = ClientMessage(status);
  if (about_a_field) error.message = WithJsonFieldName(error.message, names);
  if (about_a_field) error.param = std::string(FieldOf(error.message));
  // Most overflow errors begin with fixed words instead of the field.
  const std::optional<std::string> overflow_path = ContextOverflowPath(status);
  if (overflow_path.has_value() && error.param.empty()) {
    error.param = FieldOf(WithJsonFieldName(*overflow_path + ": ", names));
  }
  return error;
}

HttpHead ErrorHead(const absl::Status& status, absl::Duration retry_after) {
  const OpenAiError error = OpenAiError::Of(status);
  HttpHead head{.status = error.http_status};
  if (error.http_status == 401) head.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.retry) {
    const absl::Duration wait = RetryAfterOf(status, retry_after);
    const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(wait, absl::Seconds(1)));
    head.headers.emplace_back("Retry-After", fmt::format("{}", seconds));
    head.headers.emplace_back("Retry-After-Ms", fmt::format("{}", absl::ToInt64Milliseconds(wait)));
  }
  return head;
}

void OpenAiError::AppendJson(std::string& out) const {
  JsonWriter json(out);
  json.BeginObject().Key("error").BeginObject();
  json.Key("message").String(message).Key("type").String(type);
  param.empty() ? json.Key("param").Null() : json.Key("param").String(param);
  code.empty() ? json.Key("code").Null() : json.Key("code").String(code);
  json.EndObject().EndObject();
}

}  // namespace lockstep::router
