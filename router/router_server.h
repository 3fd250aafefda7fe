#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/net/address.h"
#include "common/net/tls/tls_files.h"
#include "common/strands/stall_watch.h"
#include "common/strands/strand_pool.h"
#include "router/engine/engine.h"
#include "router/public_server.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/prompts/served_model.h"
#include "router/workers/link/grpc_loop.h"

namespace lockstep::router {

struct RouterServerConfig {
  std::string listen = "127.0.0.1:50051";
  TlsFiles tls;              // none: plaintext
  std::string tenants_path;  // of a tenant file (router/auth/tenant_table.h); empty: no keys
  absl::Duration tenants_reload_interval = absl::Seconds(5);
  EngineConfig engine;
  ApiConfig api;
  uint32_t num_grpc_threads = 1;              // that schedule the steps of workers
  uint32_t num_encode_threads = 3;            // that check and tokenize prompts
  uint32_t max_connection_memory_mib = 1024;  // bytes in transit, of all connections together
  // Of the public front, but for what is said above; its `listen` is the second listener.
  PublicServerConfig http;

  absl::Status Validate() const;  // every violation at once
};

// A whole router behind its ports: threads, engine, API context, services, the public server, and
// the thread that keeps them fresh ("keeper"). It owns all of them, and ends the loops as well.
// Health checking is always on. Reflection is off when API keys are required, because it would
// answer without one.
class RouterServer {
 public:
  // What the server works with; all but the replicas must outlive it.
  struct Parts {
    const ServedModel* model;
    std::vector<ReplicaParts> replicas;
    RouterMetrics* metrics;
    const Clock* clock;
    std::shared_ptr<GrpcLoops> loops;  // of the links of the replicas
    prometheus::Registry* registry;    // for the metrics of connections
    Tracer* tracer = nullptr;          // null: no request is recorded
  };
  // Returns once it listens; errors name the address.
  static absl::StatusOr<std::unique_ptr<RouterServer>> Start(const RouterServerConfig& config,
                                                             Parts parts);
  RouterServer(const RouterServer&) = delete;
  RouterServer& operator=(const RouterServer&) = delete;
  // Cuts off what still runs; call Drain before to avoid that.
  ~RouterServer();

  // Of `listen` and of the second listener; host as asked for, port as bound.
  const Address& address() const;
  const Address& http_address() const;
  Engine& engine() { return *engine_; }
  // Adds the threads that clients and workers wait for: those of connections ("http-0", ...) and
  // those of workers ("grpc-0", ...). Use the watch only while the server lives.
  void WatchThreads(StallWatch& watch) const;
  // For further servers of the same API; they end before this one does.
  ApiContext& api() { return *context_; }

  // Not ready from now on, new requests get UNAVAILABLE; waits until the running ones are done, for
  // at most `timeout`; then ends those that are left as aborted. True when none was.
  bool Drain(absl::Duration timeout);

 private:
  class Impl;
  RouterServer();

  std::shared_ptr<GrpcLoops> loops_;
  std::unique_ptr<StrandPool> encode_pool_;
  std::unique_ptr<Gatekeeper> gatekeeper_;
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Impl> impl_;  // what talks to clients
};

}  // namespace lockstep::router
