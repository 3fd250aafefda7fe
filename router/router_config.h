#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <string>

#include "router/api/router_server.h"
#include "router/worker_client/grpc_step_link.h"

namespace lockstep::router {

// Everything that a router process can be told (docs/configuration.md). The defaults are those of
// the flags in main.cc.
struct RouterConfig {
  std::string model;     // model folder or *.gguf file
  std::string model_id;  // empty: the file's or folder's name
  std::string admin_listen = "127.0.0.1:9090";
  bool insecure = false;  // addresses beyond this machine, without TLS
  absl::Duration priority_ageing = absl::Seconds(10);
  absl::Duration drain_timeout = absl::Seconds(30);
  RouterServerConfig server;
  WorkerClientConfig worker;

  absl::Status Validate() const;  // every violation at once
};

}  // namespace lockstep::router
