#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/runtime/clock.h"
#include "router/tracing/otlp_exporter.h"
#include "router/tracing/span_metrics.h"
#include "router/tracing/tracer.h"
#include "router/tracing/tracing_config.h"

namespace lockstep::router {

// The parts that record a router's requests. Must outlive the server of these requests.
struct Tracing {
  std::shared_ptr<SpanQueue> queue;  // null: no collector is configured
  std::unique_ptr<Tracer> tracer;    // null: no collector is configured

  // `config` must be valid. `model` is the name that clients use. Clock and series must outlive the
  // object.
  static Tracing Start(const TracingConfig& config, const SpanMetrics& metrics,
                       const std::string& model, const Clock& clock) {
    if (!config.enabled()) return {};
    const auto queue = std::make_shared<SpanQueue>(config.queue, metrics);
    return {.queue = queue,
            .tracer = std::make_unique<Tracer>(config.sample_ratio, model, clock, queue)};
  }

  // Sends spans until the exporter is destroyed, which sends the rest (OtlpExporter). Destroy it
  // after the last request. Null if no collector is configured.
  std::unique_ptr<OtlpExporter> Export(const TracingConfig& config,
                                       const SpanMetrics& metrics) const {
    if (queue == nullptr) return nullptr;
    return std::make_unique<OtlpExporter>(config, queue, metrics);
  }
};

}  // namespace lockstep::router
