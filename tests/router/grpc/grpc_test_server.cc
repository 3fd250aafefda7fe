#include "tests/router/grpc/grpc_test_server.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "router/front/serve_connection.h"

namespace lockstep::testing {

router::ConnectionLimits GrpcTestServer::Limits() {
  return {.max_body_bytes = 0,
          .header_timeout = absl::Minutes(1),
          .body_timeout = absl::Minutes(1),
          .idle_timeout = absl::Minutes(1),
          .write_timeout = absl::Minutes(1)};
}

GrpcTestServer::GrpcTestServer(const router::GrpcServices& services,
                               const router::ConnectionLimits& limits)
    : GrpcTestServer(
          [this, &services](router::StreamRequest request,
                            std::shared_ptr<router::OutputSignal> signal) {
            return services.Open(request, std::move(signal), memory_);
          },
          limits) {}

GrpcTestServer::GrpcTestServer(router::OpenStream open_stream,
                               const router::ConnectionLimits& limits)
    : context_{.open_stream = std::move(open_stream),
               .draining = [] { return false; },
               .limits = limits,
               .metrics = metrics_,
               .memory = *memory_},
      listener_(io_, [this](boost::asio::ip::tcp::socket socket) {
        router::ServeConnection(std::move(socket), nullptr, context_);
      }) {
  const auto port = listener_.Listen({.host = "127.0.0.1", .port = 0});
  LOCKSTEP_CHECK(port.ok(), "{}", Message(port.status()));
  port_ = *port;
  address_ = fmt::format("127.0.0.1:{}", port_);
  listener_.Accept();
  thread_ = NamedThread("http", [this] { io_.run(); });
}

GrpcTestServer::~GrpcTestServer() { io_.stop(); }

}  // namespace lockstep::testing
