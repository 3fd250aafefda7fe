#pragma once

#include <absl/time/time.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <string>

namespace lockstep::router {

// The series of the constraint engines, made at start so that each one reads 0 before its first
// event. The registry owns them and must outlive the object. Names and labels: docs/metrics.md.
struct ConstraintMetrics {
  ConstraintMetrics(prometheus::Registry& registry, const std::string& model);

  prometheus::Counter* accepted_total;  // requests with a constraint that is enforced
  prometheus::Counter* refused_total;   // requests with a constraint that cannot be enforced
  prometheus::Counter* restarts_total;  // engines that ended
  prometheus::Histogram* compile_seconds;
};

}  // namespace lockstep::router
