#include "router/tracing/span_metrics.h"

namespace lockstep::router {
namespace {

constexpr std::array<const char*, 4> kDropNames = {"queue_full", "unreachable", "refused",
                                                   "shutdown"};

}  // namespace

SpanMetrics::SpanMetrics(prometheus::Registry& registry, const std::string& model) {
  exported_total = &prometheus::BuildCounter()
                        .Name("lockstep_router_spans_exported_total")
                        .Help("Spans that the collector has taken.")
                        .Labels({{"model", model}})
                        .Register(registry)
                        .Add({});
  auto& dropped = prometheus::BuildCounter()
                      .Name("lockstep_router_spans_dropped_total")
                      .Help("Spans that no collector got.")
                      .Labels({{"model", model}})
                      .Register(registry);
  for (size_t i = 0; i < kDropNames.size(); ++i) {
    dropped_total[i] = &dropped.Add({{"reason", kDropNames[i]}});
  }
}

}  // namespace lockstep::router
