#include "router/http/exchanges/reply_exchange.h"

#include "common/runtime/release_memory.h"
#include "common/status.h"
#include "router/http/dialects/openai/openai_error.h"

namespace lockstep::router {
namespace {

// Answers are short-lived, or cut off with their clients, so memory becomes free soon.
constexpr absl::Duration kRetryAfterMemory = absl::Seconds(1);

}  // namespace

void ReplyExchange::Reply(HttpHead head, std::string body) {
  {
    MutexLock lock(mutex_);
    if (!held_.Resize(body.size())) {
      const absl::Status status =
          ResourceExhausted("too many bytes of other answers are in transit");
      head = ErrorHead(status, kRetryAfterMemory);
      ReleaseMemory(body);
      OpenAiError::Of(status).AppendJson(body);
      held_.ResizeAnyway(body.size());
    }
    output_ = Output{.head = FieldsOf(head), .body = std::move(body), .last = true};
  }
  signal_->OnOutput();
}

std::shared_ptr<Exchange> Refusal(int http_status, std::string message,
                                  std::shared_ptr<OutputSignal> signal) {
  const bool overloaded = http_status >= 500;
  const OpenAiError error{.http_status = http_status,
                          .type = overloaded ? "server_error" : "invalid_request_error",
                          .message = std::move(message)};
  std::string body;
  error.AppendJson(body);
  HttpHead head{.status = http_status};
  if (overloaded) head.headers.emplace_back("Retry-After", "1");
  auto reply = std::make_shared<ReplyExchange>(std::move(signal));
  reply->Reply(std::move(head), std::move(body));
  return reply;
}

}  // namespace lockstep::router
