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
  std::string tenants_path;  // a tenant file (router/auth/tenant_table.h); empty: no keys
  absl::Duration tenants_reload_interval = absl::Seconds(5);
  EngineConfig engine;
  ApiConfig api;
  uint32_t num_grpc_threads = 1;              // schedule the steps of workers
  uint32_t num_encode_threads = 3;            // check and tokenize prompts
  uint32_t max_connection_memory_mib = 1024;  // for bytes in transit of all connections
  // The public front. Its `listen` is the second listener. Its main_listen, tls and
  // max_body_memory_mib come from the fields above.
  PublicServerConfig http;

  absl::Status Validate() const;  // every violation at once
};

// A whole router behind its ports: threads, engine, API context, services and public server. A
// thread of its own ("keeper") updates the health, samples the fleet and returns freed memory. Owns
// all of these, and stops the loops too. Health checking is always on. Reflection is off if API
// keys are required, because it would answer without one.
class RouterServer {
 public:
  // The parts that the server uses. All of them except the replicas must outlive it.
  struct Parts {
    const ServedModel* model;
    std::vector<ReplicaParts> replicas;
    RouterMetrics* metrics;
    const Clock* clock;
    std::shared_ptr<GrpcLoops> loops;  // for the links of the replicas
    prometheus::Registry* registry;    // for the metrics of connections
    Tracer* tracer = nullptr;          // null: no request is recorded
  };
  // Returns once it listens. Errors name the address.
  static absl::StatusOr<std::unique_ptr<RouterServer>> Start(const RouterServerConfig& config,
                                                             Parts parts);
  RouterServer(const RouterServer&) = delete;
  RouterServer& operator=(const RouterServer&) = delete;
  // Cuts off running requests. Call Drain first to avoid that.
  ~RouterServer();

  // The addresses of `listen` and of the second listener: the configured host and the bound port.
  const Address& address() const;
  const Address& http_address() const;
  Engine& engine() { return *engine_; }
  // Adds the threads that clients and workers wait for: those of connections ("http-0", ...) and
  // those of workers ("grpc-0", ...). Use the watch only while the server lives.
  void WatchThreads(StallWatch& watch) const;
  // For further servers of the same API. They must end before this one.
  ApiContext& api() { return *context_; }

  // From now on the router is not ready, and new requests get UNAVAILABLE. Waits until the running
  // requests are done, for at most `timeout`, and aborts the rest. True if none was left.
  bool Drain(absl::Duration timeout);

 private:
  class Impl;
  RouterServer();

  std::shared_ptr<GrpcLoops> loops_;
  std::unique_ptr<StrandPool> encode_pool_;
  std::unique_ptr<Gatekeeper> gatekeeper_;
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Impl> impl_;  // the part that talks to clients
};

}  // namespace lockstep::router
