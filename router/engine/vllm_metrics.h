#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace lockstep::router {

// The router's series, and the same series under vLLM's names, which dashboards, autoscalers and
// the Kubernetes inference gateway read. Each scrape makes vLLM's series from the families of
// RouterMetrics. The label `model` becomes `model_name`, and `engine` is always "0".
// docs/metrics.md lists them.
class VllmMetrics final : public prometheus::Collectable {
 public:
  // `own` must outlive the object.
  explicit VllmMetrics(const prometheus::Collectable& own) : own_(own) {}

  // Safe to call from any thread.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const prometheus::Collectable& own_;
};

}  // namespace lockstep::router
