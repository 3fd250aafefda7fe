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
#include "router/http/gateway.h"
#include "router/http/http_connection.h"
#include "router/http/io_strands.h"
#include "router/http/tls_context.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// The largest body that can pass validation: a token id takes up to eight bytes ("128255, ") where
// a text of one byte would be one.
size_t MaxBodyBytes(const RequestLimits& limits) {
  return size_t{8} * limits.max_prompt_bytes + (1 << 20);
}

size_t MaxMemoryBytes(const HttpServerConfig& config) {
  return size_t{config.max_body_memory_mib} << 20;
}

}  // namespace

absl::Status HttpServerConfig::Validate() const {
  Violations violations;
  if (!listen.empty()) violations.Merge(ParseAddress(listen).status(), "http_listen: ");
  violations.Require(max_connections >= 1 && max_connections <= 1u << 20,
                     "max_http_connections: must be from 1 to 1048576");
  violations.Require(num_threads >= 1 && num_threads <= 256, "http_threads: must be from 1 to 256");
  violations.Require(max_body_memory_mib >= 1, "max_body_memory_mib: must be at least 1");
  violations.Require(max_whole_answer_bytes >= 1, "max_whole_answer_bytes: must be at least 1");
  violations.Require(header_timeout > absl::ZeroDuration() && body_timeout > absl::ZeroDuration() &&
                         idle_timeout > absl::ZeroDuration(),
                     "timeouts of HTTP connections: must be positive");
  return violations.ToStatus();
}

class HttpServer::Impl {
 public:
  // `tls` null: plaintext.
  Impl(const HttpServerConfig& config, ApiContext& context, prometheus::Registry& registry,
       std::unique_ptr<ServerTls> tls)
      : max_connections_(config.max_connections),
        max_answer_bytes_(config.max_whole_answer_bytes),
        tls_(std::move(tls)),
        strands_(std::make_shared<IoStrands>(context.encode_pool)),
        gateway_(context, registry, strands_),
        metrics_(registry, context.model.id),
        memory_(std::make_shared<ByteBudget>(MaxMemoryBytes(config))),
        context_{.handle =
                     [this](HttpRequest request, std::shared_ptr<OutputSignal> signal) {
                       request.answer = {.memory = memory_, .max_bytes = max_answer_bytes_};
                       return gateway_.Handle(std::move(request), std::move(signal));
                     },
                 .draining = [&context] { return context.engine.draining(); },
                 .limits = {.max_body_bytes = std::min(MaxBodyBytes(context.config.limits),
                                                       MaxMemoryBytes(config)),
                            .header_timeout = config.header_timeout,
                            .body_timeout = config.body_timeout,
                            .idle_timeout = config.idle_timeout,
                            .write_timeout = context.config.stalled_client_timeout},
                 .metrics = metrics_,
                 .memory = *memory_},
        io_(static_cast<int>(config.num_threads)),
        listener_(io_, [this](tcp::socket socket) { Serve(std::move(socket)); }) {
    strands_->Open(io_, config.num_threads);
  }
  ~Impl() {
    io_.stop();
    threads_.clear();
    strands_->Close();  // the connections go with io_
  }

  absl::StatusOr<uint16_t> Listen(const Address& address) { return listener_.Listen(address); }
  void Run(uint32_t num_threads) {
    listener_.Accept();
    for (uint32_t i = 0; i < num_threads; ++i) {
      threads_.emplace_back(fmt::format("http-{}", i), [this] { io_.run(); });
    }
  }

 private:
  void Serve(tcp::socket socket) {
    if (context_.num_connections.load() >= max_connections_) {
      return metrics_.refused_for_limit->Increment();
    }
    ServeConnection(std::move(socket), tls_ == nullptr ? nullptr : tls_->Current(), context_);
  }

  const uint32_t max_connections_;
  const size_t max_answer_bytes_;
  const std::unique_ptr<ServerTls> tls_;
  const std::shared_ptr<IoStrands> strands_;
  Gateway gateway_;
  HttpMetrics metrics_;
  const std::shared_ptr<ByteBudget> memory_;
  ConnectionContext context_;  // of connections, which io_ destroys
  asio::io_context io_;
  TcpListener listener_;
  std::vector<NamedThread> threads_;
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerConfig& config,
                                                              ApiContext& context,
                                                              prometheus::Registry& registry) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(Address address, ParseAddress(config.listen));
  std::unique_ptr<ServerTls> tls;
  if (config.tls.enabled()) {
    LOCKSTEP_ASSIGN_OR_RETURN(tls, ServerTls::Load(config.tls));
  }
  auto impl = std::make_unique<Impl>(config, context, registry, std::move(tls));
  LOCKSTEP_ASSIGN_OR_RETURN(address.port, impl->Listen(address));
  impl->Run(config.num_threads);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(address), std::move(impl)));
}

HttpServer::HttpServer(Address address, std::unique_ptr<Impl> impl)
    : address_(std::move(address)), impl_(std::move(impl)) {}

HttpServer::~HttpServer() = default;

}  // namespace lockstep::router
