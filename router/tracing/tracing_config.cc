#include "router/tracing/tracing_config.h"

#include "common/net/address.h"
#include "common/violations.h"

namespace lockstep::router {

absl::Status TracingConfig::Validate() const {
  Violations violations;
  if (enabled()) violations.Merge(ParseAddress(endpoint).status(), "otlp_endpoint: ");
  violations.Merge(tls.Validate(), "otlp_tls: ");
  // Also refuses NaN.
  violations.Require(sample_ratio >= 0 && sample_ratio <= 1,
                     "trace_sample_ratio: must be from 0 to 1");
  violations.Require(!service_name.empty() && service_name.size() <= 256,
                     "trace_service_name: must have 1 to 256 bytes");
  violations.Require(queue.max_batch_spans >= 1 && queue.max_batch_spans <= queue.max_spans,
                     "max_batch_spans: must be from 1 to max_spans");
  violations.Require(queue.max_wait >= absl::ZeroDuration() && queue.max_wait <= absl::Hours(1),
                     "max_wait: must be from 0 to 1h");
  violations.Require(export_timeout > absl::ZeroDuration(), "export_timeout: must be positive");
  violations.Require(max_attempts >= 1, "max_attempts: must be at least 1");
  violations.Require(min_backoff > absl::ZeroDuration() && max_backoff >= min_backoff,
                     "min_backoff: must be positive and at most max_backoff");
  violations.Require(flush_grace >= absl::ZeroDuration(), "flush_grace: must not be negative");
  return violations.ToStatus();
}

}  // namespace lockstep::router
