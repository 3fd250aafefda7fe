#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

namespace lockstep::router {

// The router's series, and after them those that vLLM has too, under its names: dashboards,
// autoscalers and the Kubernetes inference gateway read these. They are made anew at each scrape
// from RouterMetrics' families. The label `model` becomes `model_name`, and `engine` is always "0".
// docs/metrics.md lists them.
class VllmMetrics final : public prometheus::Collectable {
 public:
  // `own` outlives the object.
  explicit VllmMetrics(const prometheus::Collectable& own) : own_(own) {}

  // Safe from any thread, as that of `own` is.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const prometheus::Collectable& own_;
};

}  // namespace lockstep::router
