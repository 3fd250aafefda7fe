#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/net/tls_files.h"
#include "router/workers/grpc_loop.h"
#include "router/workers/step_link.h"
#include "router/workers/worker_agreement.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

struct WorkerClientConfig {
  std::string address;  // host:port or unix:PATH
  TlsClientFiles tls;   // none: plaintext
  uint32_t index = 0;   // of the replica; names the thread
  ExpectedModel expected;
  std::shared_ptr<WorkerAgreement> agreement;  // with the other workers; null: any will do
  // Fence off another router whose lease still lives, until the first lease of our own: one that
  // takes over from us is not to be fenced in turn. Our own earlier lease is always taken over.
  bool takeover = false;
  absl::Duration call_timeout = absl::Seconds(10);  // of Describe and of the claim's answer
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // Between attempts, with jitter; doubles with every one that fails, and with every lease that
  // ended before the worker had returned results for so long as `stable_lease`, or been asked for
  // nothing. After attempts that failed no longer than max_backoff, after leases no longer than
  // max_lease_backoff.
  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(3);
  absl::Duration max_lease_backoff = absl::Minutes(1);
  absl::Duration stable_lease = absl::Seconds(2);
  int max_message_bytes = 64 << 20;

  absl::Status Validate() const;  // every violation at once
};

// The gRPC stream to one worker: describes it, checks that it fits, claims the lease under an epoch
// above any seen, and passes results on; when the lease ends it does so again, for ever. Its thread
// ("worker-0" is the first replica's) gets leases and sleeps while it has one: the stream's events
// come on the loop's thread. A step is written on the thread that sends it if no other write is in
// progress, so that it waits for nobody. Knows nothing of what steps mean.
class GrpcStepLink final : public StepLink {
 public:
  // The loop runs until Stop has returned.
  GrpcStepLink(WorkerClientConfig config, std::shared_ptr<GrpcLoop> loop);
  ~GrpcStepLink() override;

  void Start(LinkEventSink* sink) override;
  void Send(worker::v1::StepRequest request) override;
  void DropLease(uint64_t epoch, const absl::Status& reason) override;
  void Stop() override;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
