#pragma once

#include <memory>

#include "router/tracing/span_metrics.h"
#include "router/tracing/span_queue.h"
#include "router/tracing/tracing_config.h"

namespace lockstep::router {

// Sends the spans of a queue to a collector, in OTLP over gRPC. Owns a thread ("spans"), and only
// this thread waits for the collector. If the collector is away or slow, the queue fills, and
// further spans are dropped and counted. Sends one batch at a time.
class OtlpExporter {
 public:
  // `config` must be valid and have an endpoint. Does not wait for the collector.
  OtlpExporter(TracingConfig config, std::shared_ptr<SpanQueue> queue, const SpanMetrics& metrics);
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;
  // Sends the queued spans once, without retries, within the configured grace. Drops the rest.
  ~OtlpExporter();

 private:
  class Impl;

  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::router
