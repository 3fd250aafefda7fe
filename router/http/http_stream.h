#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "router/front/connection/http_metrics.h"
#include "router/front/connection/stream_handler.h"
#include "router/http/messages/http_request.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

// What all requests of an HTTP API share. Outlives them.
struct HttpStreamContext {
  // Answers a request. Called on any thread; must not block. A request with a body is passed twice,
  // first as its header alone (`body_follows`). That first call may return null, and then the body
  // is read. If it returns an answer, the body stays unread. Otherwise never null.
  const std::function<std::shared_ptr<Exchange>(HttpRequest, std::shared_ptr<OutputSignal>)> handle;
  // Answers a request that cannot be read, or that has no room. Returns no null. Empty: Refusal of
  // router/http/exchanges/reply_exchange.h does.
  const std::function<std::shared_ptr<Exchange>(const HttpRequest&, int http_status,
                                                std::string message, std::shared_ptr<OutputSignal>)>
      refuse = nullptr;
  HttpMetrics& metrics;
  ByteBudget& memory;  // of bodies
  const size_t max_body_bytes = 0;
  const AnswerMemory answer = {};
};

// Reads a request of the HTTP API over HTTP/2 or HTTP/1.1, and has it answered. `context` must
// outlive the handler.
std::shared_ptr<StreamHandler> OpenHttpStream(const HttpStreamContext& context,
                                              const StreamRequest& request,
                                              std::shared_ptr<OutputSignal> signal);

}  // namespace lockstep::router
