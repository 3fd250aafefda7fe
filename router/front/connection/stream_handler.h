#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/net/connection_limiter.h"
#include "router/front/connection/exchange.h"
#include "router/front/connection/header_list.h"
#include "router/front/connection/output_signal.h"
#include "router/strands/strand.h"

namespace lockstep::router {

// The header of a request, over HTTP/2 or HTTP/1.1.
struct StreamRequest {
  // Why the connection cannot read the request. The handler answers with this error.
  struct Refusal {
    int http_status = 0;
    std::string message = {};
  };

  HeaderList fields = {};                      // with ":method", ":path" and the like
  uint64_t connection_id = 0;                  // of HTTP/2: unique in this process
  ConnectionLimiter::AddressKey address = {};  // of HTTP/2: of the client
  bool http2 = false;                          // one of many requests of its connection
  bool loopback_only = false;                  // came through a listener for this machine only
  bool ends = false;                           // no body follows
  std::optional<Refusal> refusal = {};         // `fields` may lack everything but ":method"
  std::shared_ptr<StrandRunner> connection_runner = {};  // runs strands on the connection's thread
};

// One request and its answer. The connection keeps it alive until OnClosed and calls it on its own
// strand. An answer may begin before the body has ended.
class StreamHandler : public Exchange {
 public:
  virtual void OnBody(std::string_view bytes) = 0;
  // Also called if no body follows, right after the handler was made.
  virtual void OnBodyEnd() = 0;
  // Over HTTP/2. False: the client's window is not renewed, so it can send only what still fits.
  // Asked again when the handler signals output.
  virtual bool WantsBody() const { return true; }
  // Over HTTP/2. True: the body has no time limit.
  virtual bool IsConversation() const { return false; }
  // Asked once, if a body follows. True: the client waits for "100 Continue" before it sends
  // the body (RFC 9110, 10.1.1), and the handler has not refused the request.
  virtual bool AwaitsContinue() const { return false; }
};

// Makes the handler of a request; never null. The handler may keep the signal forever.
using OpenStream = std::function<std::shared_ptr<StreamHandler>(
    StreamRequest request, std::shared_ptr<OutputSignal> signal)>;

}  // namespace lockstep::router
