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
  absl::Duration header_timeout;  // also of a handshake
  absl::Duration body_timeout;
  absl::Duration idle_timeout;
  absl::Duration write_timeout;  // without the client taking anything
  // HTTP/2: a client that sent nothing for so long is pinged, and disconnected when it does not
  // answer.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
};

// What the connections of a server share. Outlives them.
struct ConnectionContext {
  // Whoever answers; from any thread, never blocks. A request with a body is shown twice: its
  // header alone first (`body_follows`), where null has the body read, and an answer is the last
  // of its connection, as what comes after it is not read. Never null otherwise.
  const std::function<std::shared_ptr<Exchange>(HttpRequest, std::shared_ptr<OutputSignal>)> handle;
  // The answer to a request that the connection itself refuses, as clients of the API expect it.
  // Never null.
  const std::function<std::shared_ptr<Exchange>(int http_status, std::string message,
                                                std::shared_ptr<OutputSignal>)>
      refuse;
  const std::function<bool()> draining;  // connections end with the answer at hand
  const ConnectionLimits limits;
  HttpMetrics& metrics;
  ByteBudget& memory;                      // of bodies, and of what the kernel did not take
  const OpenStream open_stream = nullptr;  // answers over HTTP/2
  const Http2Limits http2 = {};
  std::atomic<uint64_t> next_connection_id = 1;
  OpenConnections open = {};
};

}  // namespace lockstep::router
