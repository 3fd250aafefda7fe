#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "router/front/connection/exchange.h"
#include "router/front/connection/http2_limits.h"
#include "router/front/connection/http_metrics.h"
#include "router/front/connection/open_connections.h"
#include "router/front/connection/output_signal.h"
#include "router/front/connection/stream_handler.h"
#include "router/limits/byte_budget.h"

namespace lockstep::router {

struct ConnectionLimits {
  size_t max_body_bytes = 0;
  absl::Duration header_timeout;  // also for TLS handshakes
  absl::Duration body_timeout;
  absl::Duration idle_timeout;
  absl::Duration write_timeout;  // while the client reads nothing
  // HTTP/2: after `keepalive_time` without bytes from the client, a PING is sent. The connection
  // closes if no answer comes within `keepalive_timeout`.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
};

// What all connections of a server share. Outlives them.
struct ConnectionContext {
  // Answers a request. Called on any thread; must not block. A request with a body is passed twice,
  // first as its header alone (`body_follows`). That first call may return null, and then the body
  // is read. If it returns an answer, the body stays unread and the connection ends with the
  // answer. Otherwise never null.
  const std::function<std::shared_ptr<Exchange>(HttpRequest, std::shared_ptr<OutputSignal>)> handle;
  // Makes the answer to a request that the connection itself refuses, in the API's error format.
  // Never null.
  const std::function<std::shared_ptr<Exchange>(int http_status, std::string message,
                                                std::shared_ptr<OutputSignal>)>
      refuse;
  const std::function<bool()> draining;  // true: each connection ends after its current answer
  const ConnectionLimits limits;
  HttpMetrics& metrics;
  ByteBudget& memory;                      // of bodies and of unsent bytes
  const OpenStream open_stream = nullptr;  // makes the handlers of HTTP/2 streams
  const Http2Limits http2 = {};
  std::atomic<uint64_t> next_connection_id = 1;
  OpenConnections open = {};
};

}  // namespace lockstep::router
