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
#include "router/engine/engine.h"
#include "router/public_server.h"
#include "router/serving/calls/api_context.h"
#include "router/serving/prompts/served_model.h"
#include "router/strands/stall_watch.h"
#include "router/strands/strand_pool.h"
#include "router/workers/link/grpc_loop.h"

namespace lockstep::router {

struct RouterServerConfig {
  PublicServerConfig front;
  std::string tenants_path;  // of a tenant file (router/auth/tenant_table.h); empty: no keys
  absl::Duration tenants_reload_interval = absl::Seconds(5);
  EngineConfig engine;
  ApiConfig api;
  uint32_t num_grpc_threads = 1;    // that poll workers and schedule their steps
  uint32_t num_encode_threads = 3;  // that check and tokenize prompts

  absl::Status Validate() const;  // every violation at once
};

// A router without its process: threads, engine, API context, services, the public server, and the
// thread that keeps them fresh ("keeper"). It owns all of them, and it ends the loops. Health
// checking is always on. Reflection is off when API keys are required, because it would answer
// without one.
class RouterServer {
 public:
  // What the server works with. The registry must outlive it.
  struct Parts {
    ServingParts serving;
    std::vector<ReplicaParts> replicas;
    std::shared_ptr<GrpcLoops> loops;  // for the links of the replicas
    prometheus::Registry& registry;    // for the metrics of connections
  };
  // Returns once it listens. Errors name the address.
  static absl::StatusOr<std::unique_ptr<RouterServer>> Start(const RouterServerConfig& config,
                                                             Parts parts);
  RouterServer(const RouterServer&) = delete;
  RouterServer& operator=(const RouterServer&) = delete;
  // Cuts off what still runs. Call Drain before to avoid that.
  ~RouterServer();

  // One for each listener: the host as configured, the port as bound.
  const std::vector<Address>& addresses() const;
  const Address& address() const { return addresses().front(); }
  Engine& engine() { return *engine_; }
  // Adds the threads that clients and workers wait for: those of connections ("http-0", ...) and
  // those of workers ("grpc-0", ...). Use the watch only while the server lives.
  void WatchThreads(StallWatch& watch) const;
  // For further servers of the same API, which must end before this one.
  ApiContext& api() { return *context_; }

  // Makes the router not ready: new requests get UNAVAILABLE. Waits for running requests, for at
  // most `timeout`, and then ends the rest as aborted. True if all were done in time.
  bool Drain(absl::Duration timeout);

 private:
  class Impl;
  RouterServer();

  std::shared_ptr<GrpcLoops> loops_;
  std::unique_ptr<StrandPool> encode_pool_;
  std::unique_ptr<Gatekeeper> gatekeeper_;
  std::unique_ptr<ApiContext> context_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Impl> impl_;  // services, public server and keeper
};

}  // namespace lockstep::router
