#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "router/front/http2_session.h"
#include "router/front/open_connections.h"
#include "router/front/stream_handler.h"
#include "router/http/byte_budget.h"
#include "router/http/exchange.h"
#include "router/http/http_metrics.h"

namespace lockstep::router {

class ConnectionStream;

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
  const std::function<bool()> draining;  // connections end with the answer at hand
  const ConnectionLimits limits;
  HttpMetrics& metrics;
  ByteBudget& memory;                      // of bodies, and of what the kernel did not take
  const OpenStream open_stream = nullptr;  // answers over HTTP/2
  const Http2Limits http2 = {};
  std::atomic<uint64_t> next_connection_id = 1;
  OpenConnections open = {};
};

// Serves HTTP/1.1 on the stream, on whose strand this is called, until it closes. `received`: what
// came of it already.
void ServeHttp1(std::unique_ptr<ConnectionStream> stream, std::string_view received,
                ConnectionContext& context);

}  // namespace lockstep::router
