#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/net/connection_limiter.h"
#include "common/strands/strand.h"
#include "router/front/connection/header_list.h"
#include "router/front/connection/output_signal.h"

namespace lockstep::router {

// The header of a request over HTTP/2.
struct StreamRequest {
  HeaderList fields;                           // with ":method", ":path" and the like
  uint64_t connection_id = 0;                  // unique in this process
  ConnectionLimiter::AddressKey address = {};  // of the client
  bool loopback_only = false;                  // came through a listener for this machine only
  bool ends = false;                           // no body follows
  std::shared_ptr<StrandRunner> home = {};     // runs strands on the connection's thread
};

// One HTTP/2 request and its answer. The connection keeps it alive until OnClosed and calls it on
// its own strand. The connection takes the next output only when the last has left, so a slow
// client makes the handler hold its output back, and the handler bounds how much.
class StreamHandler {
 public:
  struct Output {
    // Includes ":status". Must be in the first output that is not empty; otherwise the stream is
    // reset.
    std::optional<HeaderList> head = {};
    std::string body = {};
    HeaderList trailers = {};  // with the last output, if any
    bool last = false;

    bool empty() const { return !head.has_value() && body.empty() && !last; }
  };

  virtual ~StreamHandler() = default;
  virtual void OnBody(std::string_view bytes) = 0;
  virtual void OnBodyEnd() = 0;
  // False: the client's window is not renewed, so it can send only what still fits. Asked again
  // when the handler signals output.
  virtual bool WantsBody() const { return true; }
  // True: the body has no time limit.
  virtual bool IsConversation() const { return false; }
  // Asked once, for a new handler if its request has a body. True: the client waits for "100
  // Continue" before it sends the body (RFC 9110, 10.1.1), and the handler has not refused the
  // request.
  virtual bool AwaitsContinue() const { return false; }
  virtual Output Take() = 0;
  virtual void OnWritten() = 0;  // what Take returned was put into frames
  // Called once, as the last call: everything was sent, or the client is gone.
  virtual void OnClosed() = 0;
};

// Makes the handler of a request; never null. The handler may keep the signal forever.
using OpenStream = std::function<std::shared_ptr<StreamHandler>(
    StreamRequest request, std::shared_ptr<OutputSignal> signal)>;

}  // namespace lockstep::router
