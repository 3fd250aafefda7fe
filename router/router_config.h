#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/constraints/engine_process.h"
#include "router/router_server.h"
#include "router/templates/renderer_pool.h"
#include "router/tracing/tracing_config.h"
#include "router/workers/link/grpc_step_link.h"

namespace lockstep::router {

// All settings of a router process (docs/configuration.md). RouterFlags has a flag for each setting
// that users may change. The defaults are here.
struct RouterConfig {
  std::string model;                       // model folder or GGUF file
  std::string model_id;                    // empty: the file's or folder's name
  std::vector<std::string> model_aliases;  // other names of the model; "*": every name
  std::string tool_format = "auto";        // ServedModel::SetOutputFormat
  std::string http_listen;                 // one more listener of the server; empty: none
  std::string admin_listen = "127.0.0.1:9090";
  bool insecure = false;             // allow addresses that other machines reach, without guards
  bool insecure_admin = false;       // the same for admin_listen only
  std::string placement = "prefix";  // ParsePlacementPolicy
  absl::Duration priority_ageing = absl::Seconds(10);
  absl::Duration drain_timeout = absl::Seconds(30);
  RouterServerConfig server;
  RendererPoolConfig templates;
  ConstraintEngineConfig constraints;
  std::string constraint_packages = "auto";  // FindConstraintPackages
  TracingConfig tracing;
  // host:port or unix:PATH of each worker, or dns:///name:port for many
  std::vector<std::string> workers = {"127.0.0.1:50061"};
  absl::Duration worker_resolve_interval = absl::Seconds(10);
  std::string weights_fingerprint;  // hexadecimal, of every worker; empty: that of the first one
  std::string shard;                // ParseShard; empty: every worker belongs to this router
  WorkerClientConfig worker;        // of every worker, except for its address, index and shard_rank
  bool check_only = false;          // the process ends when the configuration is checked

  // One for each worker that is given by its address.
  std::vector<WorkerClientConfig> WorkerConfigs() const;
  // For a worker that was found by name.
  WorkerClientConfig WorkerConfigOf(const std::string& address, uint32_t index) const;
  bool NamesWorkers() const;  // whether some workers are given by name

  // `server` with all listeners, and with the values that depend on other settings.
  RouterServerConfig ServerConfig() const;
  // `templates` with a process for each thread that renders.
  RendererPoolConfig RendererConfig() const;
  AgreementConfig Agreement() const;  // of a valid configuration
  // The most connections of the public API that a process has descriptors for. Some descriptors are
  // left for workers, template renderers, the admin port and files.
  uint64_t MaxConnectionsWith(uint64_t num_descriptors) const;

  absl::Status Validate() const;  // every violation at once
};

}  // namespace lockstep::router
