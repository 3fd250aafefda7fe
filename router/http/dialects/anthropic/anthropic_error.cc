#include "router/http/dialects/anthropic/anthropic_error.h"

#include <array>

#include "router/http/json/json_writer.h"
#include "router/serving/validation/context_overflow.h"

namespace lockstep::router {
namespace {

// The fields of the gRPC API that have other names in a body of /v1/messages.
constexpr auto kMessagesNames = std::to_array<FieldName>({
    {"sampling.json_schema", "output_config.format"},
    {"stop.stop", "stop_sequences"},
    {"sampling.", ""},
    {"stop.", ""},
    {"chat.template_arguments_json", "thinking"},
    {"chat.tools_json", "tools"},
    {"chat.continue_final_message", "messages"},
    {"chat.", ""},
    {"chat", "messages"},
});

}  // namespace

OpenAiError MessagesErrorOf(const absl::Status& status) {
  OpenAiError error = OpenAiError::Of(status, kMessagesNames);
  const bool is_thread = absl::IsNotFound(status) && error.param == kPreviousMessageField;
  error.code = is_thread ? kThreadNotFound : std::string_view();
  if (ContextOverflowPath(status).has_value()) {
    error.message = "prompt is too long: " + error.message;
  }
  return error;
}

std::string_view AnthropicErrorType(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return http_status >= 500 ? "api_error" : "invalid_request_error";
  }
}

void AppendAnthropicError(int http_status, std::string_view message, std::string_view request_id,
                          std::string& out, std::string_view code) {
  JsonWriter json(out);
  json.BeginObject().Key("type").String("error");
  json.Key("error").BeginObject().Key("type").String(AnthropicErrorType(http_status));
  json.Key("message").String(message);
  if (!code.empty()) json.Key("details").BeginObject().Key("error_code").String(code).EndObject();
  json.EndObject();
  json.Key("request_id");
  request_id.empty() ? json.Null() : json.String(request_id);
  json.EndObject();
}

}  // namespace lockstep::router
