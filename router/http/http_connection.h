#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "router/http/byte_budget.h"
#include "router/http/exchange.h"
#include "router/http/http_metrics.h"

namespace lockstep::router {

struct ConnectionLimits {
  size_t max_body_bytes = 0;
  absl::Duration header_timeout;  // also of a handshake
  absl::Duration body_timeout;
  absl::Duration idle_timeout;
  absl::Duration write_timeout;  // without the client taking anything
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
  ByteBudget& memory;  // of bodies
  std::atomic<uint32_t> num_connections = 0;
};

// Serves the socket, whose executor is a strand, until it closes. `tls` null: in plaintext.
void ServeConnection(boost::asio::ip::tcp::socket socket,
                     std::shared_ptr<boost::asio::ssl::context> tls, ConnectionContext& context);

}  // namespace lockstep::router
