#include "tests/router/front/scripted_gateway.h"

#include <string>
#include <utility>

#include "router/http/exchanges/reply_exchange.h"
#include "router/http/messages/http_head.h"

namespace lockstep::testing {
namespace {

using router::Exchange;
using router::OutputSignal;
using router::ReplyExchange;

// Events that wait for each other.
class StreamExchange final : public Exchange {
 public:
  explicit StreamExchange(std::shared_ptr<OutputSignal> signal) : signal_(std::move(signal)) {}

  void Start() { signal_->OnOutput(); }
  Output Take() override {
    MutexLock lock(mutex_);
    Output output;
    if (std::exchange(taken_, true)) return output;
    if (num_events_ == 0) output.head = router::FieldsOf({.content_type = "text/event-stream"});
    output.last = ++num_events_ == 3;
    output.body = "data: event\n\n";
    return output;
  }
  void OnWritten() override {
    {
      MutexLock lock(mutex_);
      taken_ = false;
    }
    signal_->OnOutput();
  }
  void OnClosed() override {}

 private:
  const std::shared_ptr<OutputSignal> signal_;
  Mutex mutex_;
  int num_events_ ABSL_GUARDED_BY(mutex_) = 0;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::shared_ptr<Exchange> ScriptedAnswer(router::HttpRequest request,
                                         std::shared_ptr<OutputSignal> signal) {
  if (request.body_follows && request.path != "/guarded") return nullptr;
  if (request.path == "/stream") {
    const auto stream = std::make_shared<StreamExchange>(std::move(signal));
    stream->Start();
    return stream;
  }
  const auto reply = std::make_shared<ReplyExchange>(std::move(signal));
  if (request.path == "/echo") {
    reply->Reply({.content_type = "text/plain"}, request.method + " " + request.body);
  } else if (request.path == "/large") {
    reply->Reply({.content_type = "text/plain"}, std::string(kLargeAnswerBytes, 'x'));
  } else if (request.path == "/guarded") {
    reply->Reply({.status = 401}, "{}");
  } else if (request.path != "/silent") {
    reply->Reply({.status = 404}, "{}");
  }
  return reply;
}

}  // namespace lockstep::testing
