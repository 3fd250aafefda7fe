#include "router/http/http_server.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <utility>
#include <vector>

#include "common/named_thread.h"
#include "common/status.h"
#include "common/tcp_listener.h"
#include "router/engine/violations.h"
#include "router/http/http_connection.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// The largest body that can pass validation: a token id takes up to eight bytes ("128255, ") where
// a text of one byte would be one.
size_t MaxBodyBytes(const RequestLimits& limits) {
  return size_t{8} * limits.max_prompt_bytes + (1 << 20);
}

}  // namespace

absl::Status HttpServerConfig::Validate() const {
  Violations violations;
  if (!listen.empty()) violations.Merge(ParseAddress(listen).status(), "http_listen: ");
  violations.Require(max_connections >= 1 && max_connections <= 1u << 20,
                     "max_http_connections: must be from 1 to 1048576");
  violations.Require(num_threads >= 1 && num_threads <= 256, "http_threads: must be from 1 to 256");
  violations.Require(max_body_memory_mib >= 1, "max_body_memory_mib: must be at least 1");
  violations.Require(header_timeout > absl::ZeroDuration() && body_timeout > absl::ZeroDuration() &&
                         idle_timeout > absl::ZeroDuration(),
                     "timeouts of HTTP connections: must be positive");
  return violations.ToStatus();
}

class HttpServer::Impl {
 public:
  Impl(const HttpServerConfig& config, ApiContext& context, const prometheus::Registry& registry)
      : max_connections_(config.max_connections),
        context_{.gateway = Gateway(context, registry),
                 .max_body_bytes = std::min(MaxBodyBytes(context.config.limits),
                                            size_t{config.max_body_memory_mib} << 20),
                 .max_body_memory_bytes = size_t{config.max_body_memory_mib} << 20,
                 .header_timeout = config.header_timeout,
                 .body_timeout = config.body_timeout,
                 .idle_timeout = config.idle_timeout,
                 .write_timeout = context.config.stalled_client_timeout},
        io_(static_cast<int>(config.num_threads)),
        listener_(io_, [this](tcp::socket socket) { Serve(std::move(socket)); }) {}
  ~Impl() { io_.stop(); }  // the threads join; then the connections go with io_

  absl::StatusOr<uint16_t> Listen(const Address& address) { return listener_.Listen(address); }
  void Run(uint32_t num_threads) {
    listener_.Accept();
    for (uint32_t i = 0; i < num_threads; ++i) {
      threads_.emplace_back(fmt::format("http-{}", i), [this] { io_.run(); });
    }
  }

 private:
  void Serve(tcp::socket socket) {
    if (context_.num_connections.load() >= max_connections_) return;
    ServeConnection(std::move(socket), context_);
  }

  const uint32_t max_connections_;
  ConnectionContext context_;  // of connections, which io_ destroys
  asio::io_context io_;
  TcpListener listener_;
  std::vector<NamedThread> threads_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerConfig& config, ApiContext& context, const prometheus::Registry& registry) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(Address address, ParseAddress(config.listen));
  auto impl = std::make_unique<Impl>(config, context, registry);
  LOCKSTEP_ASSIGN_OR_RETURN(address.port, impl->Listen(address));
  impl->Run(config.num_threads);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(address), std::move(impl)));
}

HttpServer::HttpServer(Address address, std::unique_ptr<Impl> impl)
    : address_(std::move(address)), impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

}  // namespace lockstep::router
