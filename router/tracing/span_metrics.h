#pragma once

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <array>
#include <cstddef>
#include <string>

namespace lockstep::router {

// Why a span did not reach a collector.
enum class SpanDrop {
  kQueueFull,    // too many spans waited for the collector
  kUnreachable,  // the collector did not answer, or said that it cannot take spans now
  kRefused,      // the collector rejected the spans
  kShutdown,     // the router ended
};

// The series of the exporter, made at start so that each one reads 0 before its first event. The
// registry owns them and must outlive the object. Names and labels: docs/metrics.md.
struct SpanMetrics {
  SpanMetrics(prometheus::Registry& registry, const std::string& model);

  // From any thread.
  void CountDropped(SpanDrop why, size_t num_spans = 1) const {
    dropped_total.at(static_cast<size_t>(why))->Increment(static_cast<double>(num_spans));
  }
  void CountExported(size_t num_spans) const {
    exported_total->Increment(static_cast<double>(num_spans));
  }

  prometheus::Counter* exported_total;
  std::array<prometheus::Counter*, 4> dropped_total;  // by SpanDrop
};

}  // namespace lockstep::router
