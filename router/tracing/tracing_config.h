#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <cstdint>
#include <string>

#include "common/net/tls/tls_files.h"
#include "router/tracing/span_queue.h"

namespace lockstep::router {

// Where spans are sent, and which requests are recorded.
struct TracingConfig {
  std::string endpoint;     // host:port of an OTLP collector (gRPC); empty: nothing is recorded
  TlsClientFiles tls;       // none: plaintext
  double sample_ratio = 1;  // of traces that begin at this router
  std::string service_name = "lockstep-router";
  SpanQueue::Limits queue;
  absl::Duration export_timeout = absl::Seconds(10);  // of one call
  // If the collector cannot take a batch, it is sent again, at most max_attempts times in all. The
  // pauses double from min_backoff to max_backoff.
  uint32_t max_attempts = 5;
  absl::Duration min_backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(10);
  absl::Duration flush_grace = absl::Seconds(5);  // to send queued spans when the router ends

  bool enabled() const { return !endpoint.empty(); }
  absl::Status Validate() const;  // every violation at once
};

}  // namespace lockstep::router
