#include "router/http/dialects/responses/responses_dialect.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "router/http/dialects/openai/openai_error.h"
#include "router/http/dialects/responses/responses_request.h"
#include "router/http/dialects/responses/responses_writer.h"

namespace lockstep::router {
namespace {

constexpr auto kResponseFieldNames = std::to_array<FieldName>({
    {"output.logprobs", "top_logprobs"},
    {"stop.max_tokens", "max_output_tokens"},
    {"sampling.json_schema", "text.format.schema"},
    {"sampling.json_object", "text.format"},
    {"sampling.", ""},
    {"stop.", ""},
    {"output.", ""},
    {"chat.template_arguments_json", "chat_template_kwargs"},
    {"chat.tools_json", "tools"},
    {"chat.messages", "input"},
    {"chat.", ""},
    {"chat", "input"},
});

// Several items may become one message, so a message's number means nothing to the client.
absl::Status AboutTheInput(const absl::Status& status) {
  const std::string message = Message(status);
  if (!message.starts_with("chat.messages[")) return status;
  return absl::Status(status.code(), "input: " + message);
}

class ResponsesDialectImpl final : public Dialect {
 public:
  std::string_view operation() const override { return "chat"; }

  absl::StatusOr<std::unique_ptr<ApiRequest>> ReadBody(std::string_view body,
                                                       const BodyReading& reading) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(ResponsesRequest request, ParseResponsesRequest(body, reading));
    return std::make_unique<ResponsesRequest>(std::move(request));
  }

  std::unique_ptr<AnswerWriter> MakeWriter(AnswerFacts facts,
                                           const ApiRequest& request) const override {
    return ResponsesWriter::Make(std::move(facts), static_cast<const ResponsesRequest&>(request));
  }

  HttpHead WriteError(const absl::Status& status, const ErrorFacts& facts,
                      std::string& body) const override {
    OpenAiError error = OpenAiError::Of(AboutTheInput(status), kResponseFieldNames);
    if (error.param == "previous_response_id") error.code = "previous_response_not_found";
    error.AppendJson(body);
    return ErrorHead(status, facts.retry_after);
  }
};

}  // namespace

const Dialect& ResponsesDialect() {
  static const ResponsesDialectImpl kDialect;
  return kDialect;
}

}  // namespace lockstep::router
