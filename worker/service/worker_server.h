#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/net/address.h"
#include "common/net/tls/tls_files.h"
#include "common/rpc/rpc_tls.h"
#include "worker/model/forward_model.h"
#include "worker/service/connection_acceptor.h"
#include "worker/service/worker_metrics.h"
#include "worker/service/worker_service.h"
#include "worker/steps/executor_thread.h"
#include "worker/steps/step_runner.h"

namespace lockstep::worker {

struct WorkerServerOptions {
  std::string listen = "127.0.0.1:0";  // host:port or unix:PATH
  TlsFiles tls;                        // none: plaintext
  uint32_t max_connections = 256;      // more are closed at once
  WorkerServiceOptions service;
};

// A worker as the network sees it: listener, connections, service and executor thread, with
// reflection and health checking. The health of "" is serving while the server lives. The health of
// the service's name is serving while it takes leases. Owns all of these, and the runner. The
// runner's model and the metrics must outlive it.
class WorkerServer {
 public:
  // Returns once it listens. Errors name the address.
  static absl::StatusOr<std::unique_ptr<WorkerServer>> Start(std::unique_ptr<StepRunner> runner,
                                                             const ForwardModelInfo& info,
                                                             uint64_t incarnation,
                                                             WorkerMetrics& metrics,
                                                             const WorkerServerOptions& options);
  WorkerServer(const WorkerServer&) = delete;
  WorkerServer& operator=(const WorkerServer&) = delete;
  ~WorkerServer();  // cuts off the lease unless Shutdown was called

  const Address& address() const { return address_; }  // the configured host, the bound port
  // The address as in the flags: host:port, or unix:PATH.
  std::string endpoint() const;

  // Grants no new lease. The current lease ends when no step is unanswered and no sequence runs, or
  // is cut off after `grace`. Returns when everything is closed: true if nothing had to be cut off.
  bool Shutdown(absl::Duration grace);

 private:
  WorkerServer(std::unique_ptr<StepRunner> runner, const ForwardModelInfo& info,
               uint64_t incarnation, WorkerMetrics& metrics, const WorkerServiceOptions& options);

  absl::Status Listen(const WorkerServerOptions& options);

  const std::unique_ptr<StepRunner> runner_;
  ExecutorThread executor_thread_;
  WorkerService service_;
  Address address_;
  std::string unix_endpoint_;          // used instead of the address if not empty
  std::unique_ptr<RpcServerTls> tls_;  // null: plaintext
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  bool started_ = false;
};

}  // namespace lockstep::worker
