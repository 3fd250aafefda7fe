#include "router/http/exchange.h"

#include "common/release_memory.h"
#include "common/status.h"
#include "router/http/openai_error.h"

namespace lockstep::router {
namespace {

// Answers are short-lived, or cut off with their clients.
constexpr absl::Duration kRetryAfterMemory = absl::Seconds(1);

}  // namespace

void ReplyExchange::Reply(HttpHead head, std::string body) {
  {
    MutexLock lock(mutex_);
    if (!held_.Resize(body.size())) {
      const absl::Status status =
          ResourceExhausted("too many bytes of other answers are in transit");
      head = ErrorHead(status, ApiKind::kCompletion, kRetryAfterMemory);
      ReleaseMemory(body);
      OpenAiError::Of(status, ApiKind::kCompletion).AppendJson(body);
      held_.ResizeAnyway(body.size());
    }
    output_ = Output{.head = std::move(head), .body = std::move(body), .last = true};
  }
  signal_->OnOutput();
}

}  // namespace lockstep::router
