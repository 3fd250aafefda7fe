#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "router/router_server.h"
#include "router/templates/renderer_pool.h"
#include "router/tracing/tracing_config.h"
#include "router/workers/link/grpc_step_link.h"

namespace lockstep::router {

// All settings of a router process (docs/configuration.md). The defaults are those of the flags in
// main.cc.
struct RouterConfig {
  std::string model;     // model folder or GGUF file
  std::string model_id;  // empty: the file's or folder's name
  std::string admin_listen = "127.0.0.1:9090";
  bool insecure = false;             // addresses beyond this machine, unguarded
  bool insecure_admin = false;       // the same for admin_listen only
  std::string placement = "prefix";  // ParsePlacementPolicy
  absl::Duration priority_ageing = absl::Seconds(10);
  absl::Duration drain_timeout = absl::Seconds(30);
  RouterServerConfig server;
  RendererPoolConfig templates;  // where chat templates render
  TracingConfig tracing;
  // host:port or unix:PATH of each worker, or dns:///name:port
  std::vector<std::string> workers = {"127.0.0.1:50061"};
  absl::Duration worker_resolve_interval = absl::Seconds(10);
  std::string weights_fingerprint;   // hex, for every worker; empty: that of the first ready one
  bool allow_mixed_workers = false;  // workers may differ in weights and numerics
  std::string shard;                 // ParseShard; empty: every worker belongs to this router
  WorkerClientConfig worker;         // for every worker, except address, index and shard_rank

  // One for each worker with an address of its own.
  std::vector<WorkerClientConfig> WorkerConfigs() const;
  // For a worker that was found by name.
  WorkerClientConfig WorkerConfigOf(const std::string& address, uint32_t index) const;
  AgreementConfig Agreement() const;  // call on a valid configuration
  bool NamesWorkers() const;          // some workers are found by name
  // The most connections of the public API for a process with this many file descriptors. Some
  // descriptors are kept for workers, template renderers, the admin port and files.
  uint64_t MaxConnectionsWith(uint64_t num_descriptors) const;
  absl::Status Validate() const;  // every violation at once
};

}  // namespace lockstep::router
