#include "router/http/dialects/anthropic/messages_dialect.h"

#include <utility>

#include "common/status.h"
#include "router/http/dialects/anthropic/anthropic_error.h"
#include "router/http/dialects/anthropic/messages_request.h"
#include "router/http/dialects/anthropic/messages_writer.h"

namespace lockstep::router {
namespace {

class AnthropicDialect final : public Dialect {
 public:
  std::string_view operation() const override { return "chat"; }
  std::string_view request_id_header() const override { return "Request-Id"; }

  absl::StatusOr<std::unique_ptr<ApiRequest>> ReadBody(std::string_view body,
                                                       const BodyReading& reading) const override {
    LOCKSTEP_ASSIGN_OR_RETURN(MessagesRequest request, ParseMessagesRequest(body, reading));
    return std::make_unique<MessagesRequest>(std::move(request));
  }

  std::unique_ptr<AnswerWriter> MakeWriter(AnswerFacts facts,
                                           const ApiRequest& request) const override {
    const auto& own = static_cast<const MessagesRequest&>(request);
    return MakeMessageWriter({.request_id = own.request_id,
                              .model = std::move(facts.model),
                              .max_tokens = own.max_tokens,
                              .names_tool = own.names_tool},
                             own.stream);
  }

  HttpHead WriteError(const absl::Status& status, const ErrorFacts& facts,
                      std::string& body) const override {
    const OpenAiError error = MessagesErrorOf(status);
    AppendAnthropicError(error.http_status, error.message, facts.request_id, body, error.code);
    return ErrorHead(status, facts.retry_after);
  }

  bool WriteRefusal(int http_status, std::string_view message, std::string_view request_id,
                    std::string& body) const override {
    AppendAnthropicError(http_status, message, request_id, body);
    return true;
  }
};

}  // namespace

const Dialect& MessagesDialect() {
  static const AnthropicDialect kDialect;
  return kDialect;
}

}  // namespace lockstep::router
