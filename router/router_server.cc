#include "router/router_server.h"

#include <utility>

#include "common/instant.h"
#include "common/runtime/bounded_queue.h"
#include "common/runtime/heap.h"
#include "common/runtime/named_thread.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/grpc/generation_service.h"
#include "router/grpc/standard_services.h"

namespace lockstep::router {
namespace {

// For the last messages of calls that are aborted.
constexpr absl::Duration kAbortGrace = absl::Seconds(5);
constexpr absl::Duration kShutdownGrace = absl::Milliseconds(500);
constexpr absl::Duration kRefreshInterval = absl::Milliseconds(300);
// Freed memory that the process may keep.
constexpr size_t kMaxFreedBytes = size_t{16} << 20;

}  // namespace

absl::Status RouterServerConfig::Validate() const {
  Violations violations;
  violations.Merge(front.Validate());
  violations.Require(tenants_reload_interval > absl::ZeroDuration(),
                     "tenants_reload_interval: must be positive");
  violations.Merge(engine.Validate());
  violations.Merge(api.Validate());
  violations.Require(num_grpc_threads >= 1 && num_grpc_threads <= 256,
                     "grpc_threads: must be from 1 to 256");
  violations.Require(num_encode_threads >= 1 && num_encode_threads <= 256,
                     "encode_threads: must be from 1 to 256");
  const uint32_t memory_mib = front.max_connection_memory_mib;
  violations.Require(memory_mib >= 16 && memory_mib <= 1u << 20,
                     "max_connection_memory_mib: must be from 16 to 1048576");
  violations.Require((uint64_t{memory_mib} << 20) >= 2 * uint64_t{api.limits.max_prompt_bytes},
                     "max_connection_memory_mib: must hold two prompts of max_prompt_bytes");
  return violations.ToStatus();
}

class RouterServer::Impl {
 public:
  // A push to `wakes` makes the keeper check the engine's readiness at once.
  Impl(ApiContext& context, Engine& engine, std::shared_ptr<BoundedQueue<bool>> wakes)
      : context_(context),
        service_(context),
        // Reflection would answer without a key.
        standard_(GenerationService::kName, /*reflection=*/!context.gatekeeper.asks_for_keys()),
        engine_(engine),
        wakes_(std::move(wakes)) {}

  // No call begins afterwards. Calls may still be ending.
  void ShutDown() {
    wakes_->Close();
    if (front_ == nullptr) return;
    keeper_.join();
    front_->Finish(kShutdownGrace);
    front_.reset();
  }

  absl::Status Listen(const RouterServerConfig& config, prometheus::Registry& registry) {
    auto services = std::make_unique<GrpcServices>(MaxRequestBytes(config.api.limits));
    service_.AddTo(*services);
    standard_.AddTo(*services);
    LOCKSTEP_ASSIGN_OR_RETURN(
        front_, PublicServer::Start(config.front, context_, registry, std::move(services)));
    keeper_ = NamedThread("keeper", [this] {
      while (!wakes_->closed()) {
        standard_.SetServing(engine_.ready(), context_.accepting());
        Sample();
        ReturnMemory();
        wakes_->PopFor(kRefreshInterval);
      }
    });
    return absl::OkStatus();
  }

  PublicServer& front() const { return *front_; }

 private:
  void Sample() {
    const Instant now = context_.clock.Now();
    if (context_.history.Due(now)) context_.history.Add(engine_.replica_statuses(), now);
  }

  // The C library has a heap for each thread. After many small requests at once, these heaps keep
  // the memory that the requests took.
  void ReturnMemory() {
    const auto now = [this] { return context_.clock.Now(); };
    if (!freed_memory_.ShouldReturn(ResidentBytes(), front_->held_bytes(), now())) return;
    ReturnFreedMemory();
    freed_memory_.OnReturned(ResidentBytes(), front_->held_bytes(), now());
  }

  ApiContext& context_;
  GenerationService service_;
  StandardServices standard_;
  Engine& engine_;
  std::unique_ptr<PublicServer> front_;
  const std::shared_ptr<BoundedQueue<bool>> wakes_;
  FreedMemoryWatch freed_memory_{kMaxFreedBytes};  // only the keeper uses it
  NamedThread keeper_;
};

RouterServer::RouterServer() = default;

absl::StatusOr<std::unique_ptr<RouterServer>> RouterServer::Start(const RouterServerConfig& config,
                                                                  Parts parts) {
  LOCKSTEP_RETURN_IF_ERROR(config.Validate());
  std::unique_ptr<TenantFile> tenants;
  if (!config.tenants_path.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        tenants, TenantFile::Open(config.tenants_path, config.tenants_reload_interval));
  }
  const auto wakes = std::make_shared<BoundedQueue<bool>>(1);
  std::unique_ptr<RouterServer> server(new RouterServer());
  server->loops_ = std::move(parts.loops);
  server->encode_pool_ = std::make_unique<StrandPool>("encode", config.num_encode_threads);
  const ServingParts& serving = parts.serving;
  server->engine_ =
      std::make_unique<Engine>(config.engine, std::move(parts.replicas), &serving.clock,
                               &serving.metrics, [wakes] { wakes->TryPush(true); });
  server->gatekeeper_ = std::make_unique<Gatekeeper>(std::move(tenants), serving.metrics);
  server->context_ = std::make_unique<ApiContext>(config.api, serving, *server->engine_,
                                                  *server->encode_pool_, *server->gatekeeper_);
  server->impl_ = std::make_unique<Impl>(*server->context_, *server->engine_, wakes);
  LOCKSTEP_RETURN_IF_ERROR(server->impl_->Listen(config, parts.registry));
  return server;
}

RouterServer::~RouterServer() {
  // The public server ends first. Then the engine's replicas end, because they run on the loops.
  // Calls end on the loops and on the pool, some of them only now, and tell the engine. So the
  // engine object goes last.
  if (impl_ != nullptr) impl_->ShutDown();
  // No client is left. Encoding of prompts stops, so that the pool's threads end soon.
  if (context_ != nullptr) context_->closing.Cancel();
  engine_->Stop();
  loops_->Stop();
  encode_pool_.reset();
}

const std::vector<Address>& RouterServer::addresses() const { return impl_->front().addresses(); }

void RouterServer::WatchThreads(StallWatch& watch) const {
  impl_->front().WatchThreads(watch);
  for (size_t i = 0; i < loops_->all().size(); ++i) {
    watch.Watch(fmt::format("grpc-{}", i), loops_->all()[i]);
  }
}

bool RouterServer::Drain(absl::Duration timeout) {
  engine_->StartDrain();
  impl_->front().AnnounceEnd();
  if (engine_->admission().WaitUntilNoneOpen(timeout)) return true;
  engine_->CancelAll();
  context_->closing.Cancel();
  engine_->admission().WaitUntilNoneOpen(kAbortGrace);
  return false;
}

}  // namespace lockstep::router
