#include "router/public_server.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <utility>
#include <vector>

#include "common/net/tcp_listener.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/front/connection/io_threads.h"
#include "router/front/connection/request_target.h"
#include "router/front/connection/tls_context.h"
#include "router/front/serve_connection.h"
#include "router/http/browser_policy.h"
#include "router/http/gateway.h"
#include "router/http/http_stream.h"

namespace lockstep::router {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

size_t MaxMemoryBytes(const PublicServerConfig& config) {
  return size_t{config.max_connection_memory_mib} << 20;
}

// Reserved for small bodies and answers, so that large ones cannot take it.
size_t ReservedBytes(const PublicServerConfig& config) { return MaxMemoryBytes(config) / 8; }
size_t MaxLargeBytes(const PublicServerConfig& config) {
  return MaxMemoryBytes(config) - ReservedBytes(config);
}

// The largest body of a prompt that can pass validation, if there is memory for it. A token id
// takes up to eight bytes ("128255, "), and a text has at least one byte for each token.
size_t MaxBodyBytes(const PublicServerConfig& config, const ApiConfig& api) {
  return std::min(size_t{8} * api.limits.max_prompt_bytes + (1 << 20), MaxLargeBytes(config));
}

// The router is not ready while a listener has no descriptors for connections.
TcpListener::OnAccepting CountDeaf(ApiContext& context) {
  return [&context](bool accepting) { context.num_deaf_listeners += accepting ? -1 : 1; };
}

}  // namespace

uint32_t PublicServerConfig::MaxConnectionsPerAddress() const {
  return max_connections_per_address.value_or(std::max(1u, max_connections / 4));
}

absl::Status PublicServerConfig::Validate() const {
  Violations violations;
  violations.Require(!listeners.empty(), "listen: expected an address");
  for (const std::string& listener : listeners) {
    violations.Merge(ParseAddress(listener).status(), "listen: ");
  }
  violations.Merge(tls.Validate(), "tls: ");
  violations.Require(max_connections >= 1 && max_connections <= 1u << 20,
                     "max_connections: must be from 1 to 1048576");
  violations.Require(max_connections_per_address.value_or(0) <= 1u << 20,
                     "max_connections_per_address: must be at most 1048576");
  violations.Require(max_concurrent_streams >= 1 && max_concurrent_streams <= 1u << 20,
                     "max_concurrent_streams: must be from 1 to 1048576");
  violations.Merge(BrowserPolicy::CheckOrigins(cors_origins), "cors_origins: ");
  violations.Require(num_threads >= 1 && num_threads <= 256, "http_threads: must be from 1 to 256");
  violations.Require(max_whole_answer_bytes >= 1, "max_whole_answer_bytes: must be at least 1");
  violations.Require(header_timeout > absl::ZeroDuration() && body_timeout > absl::ZeroDuration() &&
                         idle_timeout > absl::ZeroDuration(),
                     "timeouts of HTTP connections: must be positive");
  violations.Require(keepalive_time >= absl::Milliseconds(1) && keepalive_time <= absl::Hours(24),
                     "keepalive_time: must be from 1ms to 24h");
  violations.Require(
      keepalive_timeout >= absl::Milliseconds(1) && keepalive_timeout <= absl::Hours(24),
      "keepalive_timeout: must be from 1ms to 24h");
  return violations.ToStatus();
}

class PublicServer::Impl {
 public:
  // `tls` null: plaintext.
  Impl(const PublicServerConfig& config, ApiContext& context, prometheus::Registry& registry,
       std::unique_ptr<ServerTls> tls, std::unique_ptr<GrpcServices> grpc)
      : limiter_(std::make_shared<ConnectionLimiter>(config.max_connections,
                                                     config.MaxConnectionsPerAddress())),
        tls_(std::move(tls)),
        gateway_(context, registry, RouteTable::All(), BrowserPolicy(config.cors_origins)),
        grpc_(std::move(grpc)),
        metrics_(registry, context.model.id, gateway_.routes().Labels()),
        memory_(std::make_shared<ByteBudget>(MaxMemoryBytes(config), ReservedBytes(config))),
        http_{.handle =
                  [this](HttpRequest request, std::shared_ptr<OutputSignal> signal) {
                    return gateway_.Handle(std::move(request), std::move(signal));
                  },
              .refuse =
                  [this](const HttpRequest& request, int http_status, std::string message,
                         std::shared_ptr<OutputSignal> signal) {
                    return gateway_.RefuseUnread(request, http_status, std::move(message),
                                                 std::move(signal));
                  },
              .metrics = metrics_,
              .memory = *memory_,
              .max_body_bytes = MaxBodyBytes(config, context.config),
              .answer = {.memory = memory_, .max_bytes = config.max_whole_answer_bytes}},
        context_{.open_stream =
                     [this](StreamRequest request, std::shared_ptr<OutputSignal> signal) {
                       return Open(request, std::move(signal));
                     },
                 .draining = [&context] { return context.engine.draining(); },
                 .limits = LimitsOf(config, context.config),
                 .metrics = metrics_,
                 .memory = *memory_,
                 .http2 = {.max_concurrent_streams = config.max_concurrent_streams}},
        threads_(config.num_threads, context.encode_pool),
        on_accepting_(CountDeaf(context)) {}
  ~Impl() { threads_.Stop(); }

  // Returns the addresses with their ports.
  absl::StatusOr<std::vector<Address>> Listen(const std::vector<std::string>& listeners) {
    std::vector<Address> addresses;
    for (const std::string& text : listeners) {
      LOCKSTEP_ASSIGN_OR_RETURN(Address address, ParseAddress(text));
      listeners_.push_back(std::make_unique<TcpListener>(
          threads_.first().io(),
          [this, loopback_only = IsLoopback(address)](tcp::socket socket) {
            Serve(std::move(socket), loopback_only);
          },
          on_accepting_, [this] { return threads_.Next().io().get_executor(); }));
      LOCKSTEP_ASSIGN_OR_RETURN(address.port, listeners_.back()->Listen(address));
      addresses.push_back(std::move(address));
    }
    for (const auto& listener : listeners_) listener->Accept();
    return addresses;
  }
  void Run() { threads_.Run(); }
  void WatchThreads(StallWatch& watch) const {
    for (size_t i = 0; i < threads_.all().size(); ++i) {
      watch.Watch(fmt::format("http-{}", i), threads_.all()[i]->strands());
    }
  }
  size_t held_bytes() const { return memory_->held_bytes(); }
  void AnnounceEnd() { context_.open.Announce(); }
  void Finish(absl::Duration grace) { context_.open.Finish(grace); }

 private:
  static ConnectionLimits LimitsOf(const PublicServerConfig& config, const ApiConfig& api) {
    return {.max_body_bytes = MaxBodyBytes(config, api),
            .header_timeout = config.header_timeout,
            .body_timeout = config.body_timeout,
            .idle_timeout = config.idle_timeout,
            .write_timeout = api.stalled_client_timeout,
            .keepalive_time = config.keepalive_time,
            .keepalive_timeout = config.keepalive_timeout};
  }

  std::shared_ptr<StreamHandler> Open(const StreamRequest& request,
                                      std::shared_ptr<OutputSignal> signal) {
    // A call that names two hosts is refused with 400, as any other request is.
    if (grpc_ != nullptr && request.http2 && GrpcServices::IsCall(request) &&
        !NamesTwoHosts(request.fields)) {
      return grpc_->Open(request, std::move(signal), memory_);
    }
    return OpenHttpStream(http_, request, std::move(signal));
  }

  void Serve(tcp::socket socket, bool loopback_only) {
    auto [verdict, ticket] = limiter_->Admit(AddressKeyOf(socket));
    switch (verdict) {
      case ConnectionLimiter::Verdict::kTooMany:
        return metrics_.refused_for_limit->Increment();
      case ConnectionLimiter::Verdict::kTooManyOfAddress:
        return metrics_.refused_for_address->Increment();
      case ConnectionLimiter::Verdict::kAdmitted: {
        IoThreads::Thread& thread = threads_.Of(socket.get_executor());
        return ServeConnection(std::move(socket), tls_ == nullptr ? nullptr : tls_->Current(),
                               context_,
                               {.ticket = thread.Count(std::move(ticket)),
                                .connection_runner = thread.strands(),
                                .loopback_only = loopback_only});
      }
    }
  }

  const std::shared_ptr<ConnectionLimiter> limiter_;
  const std::unique_ptr<ServerTls> tls_;
  Gateway gateway_;
  const std::unique_ptr<GrpcServices> grpc_;  // null: none
  HttpMetrics metrics_;
  const std::shared_ptr<ByteBudget> memory_;
  HttpStreamContext http_;
  ConnectionContext context_;  // used by connections, which threads_ destroys
  IoThreads threads_;
  const TcpListener::OnAccepting on_accepting_;
  std::vector<std::unique_ptr<TcpListener>> listeners_;
};

absl::StatusOr<std::unique_ptr<PublicServer>> PublicServer::Start(
    const PublicServerConfig& config, ApiContext& context, prometheus::Registry& registry,
    std::unique_ptr<GrpcServices> grpc) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  std::unique_ptr<ServerTls> tls;
  if (config.tls.enabled()) {
    LOCKSTEP_ASSIGN_OR_RETURN(tls, ServerTls::Load(config.tls));
  }
  auto impl = std::make_unique<Impl>(config, context, registry, std::move(tls), std::move(grpc));
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Address> addresses, impl->Listen(config.listeners));
  impl->Run();
  return std::unique_ptr<PublicServer>(new PublicServer(std::move(addresses), std::move(impl)));
}

PublicServer::PublicServer(std::vector<Address> addresses, std::unique_ptr<Impl> impl)
    : addresses_(std::move(addresses)), impl_(std::move(impl)) {}

PublicServer::~PublicServer() = default;

void PublicServer::WatchThreads(StallWatch& watch) const { impl_->WatchThreads(watch); }

size_t PublicServer::held_bytes() const { return impl_->held_bytes(); }

void PublicServer::AnnounceEnd() { impl_->AnnounceEnd(); }

void PublicServer::Finish(absl::Duration grace) { impl_->Finish(grace); }

}  // namespace lockstep::router
