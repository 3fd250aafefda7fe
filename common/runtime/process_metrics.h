#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <string>
#include <vector>

namespace lockstep {

// The metrics of this process that Prometheus' client libraries call process_*, read from /proc at
// each call. What cannot be read is left out. Safe to use from any thread.
std::vector<prometheus::MetricFamily> CollectProcessMetrics();

// What /metrics shows, in Prometheus' text format: `own`, then the process.
std::string MetricsText(const prometheus::Collectable& own);

}  // namespace lockstep
