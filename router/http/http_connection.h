#pragma once

#include <absl/time/time.h>

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>

#include "router/http/gateway.h"

namespace lockstep::router {

// What the connections of a server share. Outlives them.
struct ConnectionContext {
  Gateway gateway;
  const size_t max_body_bytes;
  const size_t max_body_memory_bytes;
  const absl::Duration header_timeout;
  const absl::Duration body_timeout;
  const absl::Duration idle_timeout;
  const absl::Duration write_timeout;
  std::atomic<uint32_t> num_connections = 0;
  std::atomic<size_t> body_memory_bytes = 0;
};

// Serves the socket, whose executor is a strand, until it closes.
void ServeConnection(boost::asio::ip::tcp::socket socket, ConnectionContext& context);

}  // namespace lockstep::router
