#pragma once

#include <memory>
#include <string>

#include "common/runtime/clock.h"
#include "router/tracing/otlp_exporter.h"
#include "router/tracing/span_metrics.h"
#include "router/tracing/tracer.h"
#include "router/tracing/tracing_config.h"

namespace lockstep::router {

// All that records the requests of a router. Must outlive the server whose requests it records; its
// end sends what is left (OtlpExporter).
struct Tracing {
  std::unique_ptr<Tracer> tracer;  // null: no collector was named
  std::unique_ptr<OtlpExporter> exporter;

  // Of a valid configuration. `model` is the name that clients use. Clock and series must outlive
  // the object.
  static Tracing Start(const TracingConfig& config, const SpanMetrics& metrics,
                       const std::string& model, const Clock& clock) {
    if (!config.enabled()) return {};
    const auto queue = std::make_shared<SpanQueue>(config.queue, metrics);
    return {.tracer = std::make_unique<Tracer>(config.sample_ratio, model, clock, queue),
            .exporter = std::make_unique<OtlpExporter>(config, queue, metrics)};
  }
};

}  // namespace lockstep::router
