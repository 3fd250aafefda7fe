#include "router/api/router_server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "common/bounded_queue.h"
#include "common/grpc/credentials.h"
#include "common/grpc/reflection.h"
#include "common/named_thread.h"
#include "common/status.h"
#include "router/api/generation_service.h"
#include "router/engine/violations.h"
#include "router/grpc/standard_services.h"

namespace lockstep::router {
namespace {

constexpr char kServiceName[] = "lockstep.v1.Generation";
constexpr int kMinClientPingIntervalMs = 10'000;
constexpr int kMaxMetadataBytes = 16 << 10;
constexpr int kMessageBytesBesidesPrompt = 1 << 20;
constexpr absl::Duration kAbortGrace = absl::Seconds(5);  // for the last messages of aborted calls
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);
constexpr absl::Duration kRefreshInterval = absl::Milliseconds(300);

// Bytes of the largest message that can pass validation: a prompt to be cut has as many ids as a
// text has bytes, and an id takes up to four on the wire.
int MaxReceiveBytes(const RequestLimits& limits) {
  const int64_t bytes = int64_t{4} * limits.max_prompt_bytes + kMessageBytesBesidesPrompt;
  return static_cast<int>(std::min<int64_t>(bytes, std::numeric_limits<int>::max()));
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// What strangers may cost the process: bytes, streams, and connections of clients that are gone.
void BoundConnections(const RouterServerConfig& config, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(MaxReceiveBytes(config.api.limits));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(config.max_concurrent_streams));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("public").Resize(size_t{config.max_connection_memory_mib} << 20));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(config.keepalive_time));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(config.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kMinClientPingIntervalMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

}  // namespace

absl::Status RouterServerConfig::Validate() const {
  Violations violations;
  violations.Merge(ParseAddress(listen).status(), "listen: ");
  violations.Merge(tls.Validate(), "tls: ");
  violations.Require(tenants_reload_interval > absl::ZeroDuration(),
                     "tenants_reload_interval: must be positive");
  violations.Merge(engine.Validate());
  violations.Merge(api.Validate());
  violations.Require(num_grpc_threads >= 1 && num_grpc_threads <= 256,
                     "grpc_threads: must be from 1 to 256");
  violations.Require(num_encode_threads >= 1 && num_encode_threads <= 256,
                     "encode_threads: must be from 1 to 256");
  violations.Require(max_concurrent_streams >= 1 && max_concurrent_streams <= 1u << 20,
                     "max_concurrent_streams: must be from 1 to 1048576");
  violations.Require(max_connection_memory_mib >= 16 && max_connection_memory_mib <= 1u << 20,
                     "max_connection_memory_mib: must be from 16 to 1048576");
  violations.Require(
      (uint64_t{max_connection_memory_mib} << 20) >= 2 * uint64_t{api.limits.max_prompt_bytes},
      "max_connection_memory_mib: must hold two prompts of max_prompt_bytes");
  violations.Require(keepalive_time >= absl::Milliseconds(1) && keepalive_time <= absl::Hours(24),
                     "keepalive_time: must be from 1ms to 24h");
  violations.Require(
      keepalive_timeout >= absl::Milliseconds(1) && keepalive_timeout <= absl::Hours(24),
      "keepalive_timeout: must be from 1ms to 24h");
  return violations.ToStatus();
}

class RouterServer::Impl {
 public:
  // Whoever pushes to `wakes` makes the keeper look at the engine's readiness at once.
  Impl(ApiContext& context, Engine& engine, GrpcLoops& loops,
       std::shared_ptr<BoundedQueue<bool>> wakes)
      : context_(context),
        loops_(loops),
        service_(context),
        // Reflection would answer without a key.
        standard_(kServiceName, /*reflection=*/!context.gatekeeper.asks_for_keys()),
        engine_(engine),
        wakes_(std::move(wakes)) {}

  // Nothing comes in afterwards; calls may still be about to end.
  void ShutDown() {
    wakes_->Close();
    if (server_ == nullptr) return;
    keeper_.join();
    server_->Shutdown(absl::ToChronoTime(absl::Now() + kShutdownGrace));
    server_->Wait();
  }

  absl::StatusOr<uint16_t> Listen(const RouterServerConfig& config) {
    grpc::ServerBuilder& builder = loops_.builder();
    // Both but ours, also where a worker of this process wants the library's.
    builder.SetOption(std::make_unique<NoReflection>());
    builder.SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
    int port = 0;
    builder.AddListeningPort(config.listen, MakeServerCredentials(config.tls), &port);
    builder.RegisterService(&service_.grpc_service());
    standard_.Register(builder);
    BoundConnections(config, builder);
    // Two routers on one port would share its calls by chance.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return Unavailable("cannot listen on {}: is the port in use?", config.listen);
    }
    for (const std::shared_ptr<GrpcLoop>& loop : loops_.all()) service_.Listen(loop);
    standard_.Listen(loops_.Of(0));
    keeper_ = NamedThread("keeper", [this] {
      while (!wakes_->closed()) {
        standard_.SetServing(engine_.ready());
        EndStalledCalls();
        wakes_->PopFor(kRefreshInterval);
      }
    });
    return static_cast<uint16_t>(port);
  }

 private:
  void EndStalledCalls() {
    const absl::Time limit = context_.clock.Now() - context_.config.stalled_client_timeout;
    for (const std::shared_ptr<OpenCall>& call : context_.registry.open_calls()) {
      call->EndIfStalledSince(limit);
    }
  }

  ApiContext& context_;
  GrpcLoops& loops_;
  GenerationService service_;
  StandardServices standard_;
  Engine& engine_;
  std::unique_ptr<grpc::Server> server_;
  const std::shared_ptr<BoundedQueue<bool>> wakes_;
  NamedThread keeper_;
};

RouterServer::RouterServer() = default;

absl::StatusOr<std::unique_ptr<RouterServer>> RouterServer::Start(const RouterServerConfig& config,
                                                                  Parts parts) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  LOCKSTEP_ASSIGN_OR_RETURN(Address address, ParseAddress(config.listen));
  std::unique_ptr<TenantFile> tenants;
  if (!config.tenants_path.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        tenants, TenantFile::Open(config.tenants_path, config.tenants_reload_interval));
  }
  const auto wakes = std::make_shared<BoundedQueue<bool>>(1);
  std::unique_ptr<RouterServer> server(new RouterServer());
  server->loops_ = std::move(parts.loops);
  server->encode_pool_ = std::make_unique<StrandPool>("encode", config.num_encode_threads);
  server->engine_ = std::make_unique<Engine>(config.engine, std::move(parts.replicas), parts.clock,
                                             parts.metrics, [wakes] { wakes->TryPush(true); });
  server->gatekeeper_ = std::make_unique<Gatekeeper>(std::move(tenants), *parts.metrics);
  server->context_ = std::make_unique<ApiContext>(
      config.api, ApiContext::Parts{.model = *parts.model,
                                    .engine = *server->engine_,
                                    .encode_pool = *server->encode_pool_,
                                    .metrics = *parts.metrics,
                                    .clock = *parts.clock,
                                    .gatekeeper = *server->gatekeeper_});
  server->impl_ =
      std::make_unique<Impl>(*server->context_, *server->engine_, *server->loops_, wakes);
  LOCKSTEP_ASSIGN_OR_RETURN(address.port, server->impl_->Listen(config));
  server->address_ = std::move(address);
  return server;
}

RouterServer::~RouterServer() {
  // The server first, then the engine's threads, which schedule on the loops and have links there.
  // The calls end on loops and pool, some of them only now, and tell the engine, which is therefore
  // the last to go.
  if (impl_ != nullptr) impl_->ShutDown();
  engine_->Stop();
  loops_->Stop();
  encode_pool_.reset();
}

bool RouterServer::Drain(absl::Duration timeout) {
  engine_->StartDrain();
  if (engine_->WaitUntilDrained(timeout)) return true;
  engine_->CancelAll();
  engine_->WaitUntilDrained(kAbortGrace);
  return false;
}

}  // namespace lockstep::router
