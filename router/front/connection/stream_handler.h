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
  uint64_t connection_id = 0;                  // not that of another one in this process
  ConnectionLimiter::AddressKey address = {};  // of the client
  bool loopback_only = false;                  // came in where only this machine can connect
  bool ends = false;                           // no body follows
  std::shared_ptr<StrandRunner> home = {};     // runs strands on the connection's thread
};

// One request over HTTP/2 and its answer, whatever it is about. The connection keeps it alive until
// OnClosed, and calls it on its own strand. Answers are pulled: the next piece is taken once the
// one before has left, so what waits for a slow client is bounded by what the handler lets wait.
class StreamHandler {
 public:
  struct Output {
    // With ":status". The first output that is not empty has it; the stream is reset otherwise.
    std::optional<HeaderList> head = {};
    std::string body = {};
    HeaderList trailers = {};  // of the last one, if any
    bool last = false;

    bool empty() const { return !head.has_value() && body.empty() && !last; }
  };

  virtual ~StreamHandler() = default;
  virtual void OnBody(std::string_view bytes) = 0;
  virtual void OnBodyEnd() = 0;
  // False: the client may send no more of the body than its window has room for, until the handler
  // signals output the next time.
  virtual bool WantsBody() const { return true; }
  // The body may take as long as the client likes.
  virtual bool IsConversation() const { return false; }
  // Asked once, when the handler is new and a body follows. True: the client waits until it is told
  // to send that (RFC 9110, 10.1.1), and the handler has not refused it.
  virtual bool AwaitsContinue() const { return false; }
  virtual Output Take() = 0;
  virtual void OnWritten() = 0;  // what Take returned is on its way
  // Once, at the end: everything was sent, or the client is gone. Nothing else is called after it.
  virtual void OnClosed() = 0;
};

// Who answers a request; never null. The signal may be kept for as long as anybody likes.
using OpenStream = std::function<std::shared_ptr<StreamHandler>(
    StreamRequest request, std::shared_ptr<OutputSignal> signal)>;

}  // namespace lockstep::router
