#pragma once

#include <prometheus/registry.h>

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>

#include "common/net/tcp_listener.h"
#include "common/net/tls/tls_files.h"
#include "common/runtime/named_thread.h"
#include "router/front/connection/tls_context.h"
#include "router/front/http1/http_connection.h"
#include "router/http/http_stream.h"

namespace lockstep::testing {

// Real connections before a scripted gateway, on a free port of this machine.
class ScriptedServer {
 public:
  explicit ScriptedServer(const router::ConnectionLimits& limits, const TlsFiles& tls = {});
  ~ScriptedServer() { io_.stop(); }

  uint16_t port() const { return port_; }
  const router::HttpMetrics& metrics() const { return metrics_; }
  size_t held_body_bytes() const { return memory_.held_bytes(); }
  double CountOf(const char* route, const char* code) const;

  // Ample for everything but what a test looks at.
  static router::ConnectionLimits Limits();

 private:
  prometheus::Registry registry_;
  router::HttpMetrics metrics_{registry_, "model", {{"/health", false}, {"/v1/models", true}}};
  router::ByteBudget memory_{size_t{1} << 20};
  std::unique_ptr<router::ServerTls> tls_;
  router::HttpStreamContext http_;
  router::ConnectionContext context_;
  boost::asio::io_context io_{1};
  TcpListener listener_;
  uint16_t port_ = 0;
  NamedThread thread_;
};

}  // namespace lockstep::testing
