#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <memory>

#include "router/workers/link/grpc_loop.h"
#include "router/workers/link/worker_client_config.h"
#include "router/workers/step_link.h"

namespace lockstep::router {

// The gRPC stream to one worker. It calls Describe, checks that the worker fits, claims the lease
// with an epoch above any seen, and passes results on. When the lease ends it starts again, for
// ever. A worker that belongs to another router is only described, about once a second, until it is
// an orphan; its lease says that this router stands in. Owns a thread ("worker-0" for the first
// replica) that gets leases, and sleeps while it holds one. The stream's events come on the loop's
// thread. Send writes on the caller's thread if no other write is in progress, so that a step waits
// for no thread. Knows nothing about the meaning of steps.
class GrpcStepLink final : public StepLink {
 public:
  // The loop must run until Stop has returned.
  GrpcStepLink(WorkerClientConfig config, std::shared_ptr<GrpcLoop> loop);
  ~GrpcStepLink() override;

  void Start(LinkEventSink* sink) override;
  void Send(worker::v1::StepRequest request) override;
  void DropLease(uint64_t epoch, const absl::Status& reason) override;
  void LeaveOrphans() override;
  void Stop() override;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
