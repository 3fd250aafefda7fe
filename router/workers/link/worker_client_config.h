#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/net/tls/tls_files.h"
#include "router/workers/worker_agreement.h"
#include "router/workers/worker_contract.h"

namespace lockstep::router {

// How a GrpcStepLink reaches its worker.
struct WorkerClientConfig {
  std::string address;  // host:port or unix:PATH
  TlsClientFiles tls;   // empty: plaintext
  uint32_t index = 0;   // of the replica; part of the thread's name
  ExpectedModel expected;
  std::shared_ptr<WorkerAgreement> agreement;  // with the other workers; null: not checked
  // Takes the lease from another router while it is still alive, but only until our own first
  // lease. A router that takes over from us must not lose its lease in turn. A lease that we held
  // before is always taken over.
  bool takeover = false;
  // The rank of this router for the worker (shard.h). Above 0, the worker belongs to another
  // router. Then the link claims only an orphan: after no lease has lived for this many times
  // `orphan_wait`.
  uint32_t shard_rank = 0;
  absl::Duration orphan_wait = absl::Seconds(30);
  absl::Duration call_timeout = absl::Seconds(10);  // for Describe, and for the answer to the claim
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // Pause between attempts, with jitter. It doubles after every failed attempt and every short
  // lease. A lease is short if the worker did not return results over `stable_lease`, or, with
  // nothing to answer, did not live that long. The limit is max_backoff after failed attempts and
  // max_lease_backoff after leases. A router that shares its workers must stay below orphan_wait
  // (LongestSharedPause).
  absl::Duration min_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(3);
  absl::Duration max_lease_backoff = absl::Minutes(1);
  absl::Duration stable_lease = absl::Seconds(2);
  int max_message_bytes = 64 << 20;

  absl::Status Validate() const;  // reports every violation
};

}  // namespace lockstep::router
