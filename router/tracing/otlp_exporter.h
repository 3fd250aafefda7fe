#pragma once

#include <memory>

#include "router/tracing/span_metrics.h"
#include "router/tracing/span_queue.h"
#include "router/tracing/tracing_config.h"

namespace lockstep::router {

// Sends the spans of a queue to a collector: OTLP over gRPC, in a thread of its own ("spans"),
// which alone ever waits for the collector and reads what it sends. While the collector is away or
// slow, the span queue fills, and spans are dropped and counted; nothing else happens. One batch is
// on its way at a time.
class OtlpExporter {
 public:
  // `config` is valid, and its endpoint is set. Does not wait for the collector.
  OtlpExporter(TracingConfig config, std::shared_ptr<SpanQueue> queue, const SpanMetrics& metrics);
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;
  // Sends what is queued, without further attempts, for at most the configured grace. Drops the
  // rest.
  ~OtlpExporter();

 private:
  class Impl;

  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
