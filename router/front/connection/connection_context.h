#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

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
  const OpenStream open_stream;          // makes the handlers of requests; not null
  const std::function<bool()> draining;  // true: each connection ends after its current answer
  const ConnectionLimits limits;
  HttpMetrics& metrics;
  ByteBudget& memory;  // of incomplete headers and of unsent bytes
  const Http2Limits http2 = {};
  std::atomic<uint64_t> next_connection_id = 1;
  OpenConnections open = {};
};

}  // namespace lockstep::router
