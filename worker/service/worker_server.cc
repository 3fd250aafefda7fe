#include "worker/service/worker_server.h"

#include <unistd.h>

#include <utility>

#include "common/status.h"
#include "worker/service/description.h"

namespace lockstep::worker {

WorkerServer::WorkerServer(std::unique_ptr<StepRunner> runner, const ForwardModelInfo& info,
                           uint64_t incarnation, WorkerMetrics& metrics,
                           const WorkerServiceOptions& options)
    : runner_(std::move(runner)),
      executor_thread_(*runner_, WorkerService::QueueCapacity(options)),
      service_(MakeDescription(info, runner_->bounds(), options.max_steps_in_flight, incarnation),
               executor_thread_, metrics, options) {}

absl::StatusOr<std::unique_ptr<WorkerServer>> WorkerServer::Start(
    std::unique_ptr<StepRunner> runner, const ForwardModelInfo& info, uint64_t incarnation,
    WorkerMetrics& metrics, const WorkerServerOptions& options) {
  std::unique_ptr<WorkerServer> server(
      new WorkerServer(std::move(runner), info, incarnation, metrics, options.service));
  LOCKSTEP_RETURN_IF_ERROR(server->Listen(options));
  return server;
}

absl::Status WorkerServer::Listen(const WorkerServerOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(acceptor_,
                            ConnectionAcceptor::Listen(options.listen, options.max_connections));
  if (IsUnixAddress(options.listen)) {
    unix_endpoint_ = options.listen;
  } else {
    LOCKSTEP_ASSIGN_OR_RETURN(address_, ParseAddress(options.listen));
    address_.port = acceptor_->port();
  }
  if (options.tls.enabled()) {
    LOCKSTEP_ASSIGN_OR_RETURN(tls_, RpcServerTls::Load(options.tls));
  }
  service_.Start();
  started_ = true;
  acceptor_->Start([this](int descriptor) {
    SslPtr ssl = tls_ == nullptr ? nullptr : tls_->Make();
    if (tls_ != nullptr && ssl == nullptr) {
      close(descriptor);  // never without TLS
      return;
    }
    service_.Serve(descriptor, std::move(ssl));
  });
  return absl::OkStatus();
}

std::string WorkerServer::endpoint() const {
  return unix_endpoint_.empty() ? FormatAddress(address_) : unix_endpoint_;
}

bool WorkerServer::Shutdown(absl::Duration grace) {
  service_.BeginDrain();
  const bool clean = service_.WaitUntilNoLease(grace);
  acceptor_->Stop();
  service_.Stop();
  acceptor_.reset();
  started_ = false;
  return clean;
}

WorkerServer::~WorkerServer() {
  if (started_) Shutdown(absl::ZeroDuration());
}

}  // namespace lockstep::worker
