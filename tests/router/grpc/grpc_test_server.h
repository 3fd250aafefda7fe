#pragma once

#include <prometheus/registry.h>

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/net/tcp_listener.h"
#include "common/runtime/named_thread.h"
#include "router/front/http1/http_connection.h"
#include "router/grpc/grpc_services.h"

namespace lockstep::testing {

// Real connections before some services, or whatever answers streams, on a free port of this
// machine.
class GrpcTestServer {
 public:
  static constexpr size_t kMemoryBytes = size_t{64} << 20;

  // Ample for everything but what a test looks at.
  static router::ConnectionLimits Limits();

  // The services outlive the object.
  explicit GrpcTestServer(const router::GrpcServices& services,
                          const router::ConnectionLimits& limits = Limits());
  GrpcTestServer(router::OpenStream open_stream, const router::ConnectionLimits& limits);
  ~GrpcTestServer();

  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }
  const router::HttpMetrics& metrics() const { return metrics_; }
  router::ByteBudget& memory() { return *memory_; }
  size_t held_bytes() const { return memory_->held_bytes(); }
  // Connections end once they have answered, at once those that answer nothing.
  void Finish(absl::Duration grace) { context_.open.Finish(grace); }
  size_t num_connections() const { return context_.open.size(); }

 private:
  prometheus::Registry registry_;
  router::HttpMetrics metrics_{registry_, "model", {}};
  const std::shared_ptr<router::ByteBudget> memory_ =
      std::make_shared<router::ByteBudget>(kMemoryBytes);
  router::ConnectionContext context_;
  boost::asio::io_context io_{1};
  TcpListener listener_;
  uint16_t port_ = 0;
  std::string address_;
  NamedThread thread_;
};

}  // namespace lockstep::testing
