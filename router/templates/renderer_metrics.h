#pragma once

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <array>
#include <string>

#include "router/templates/renderer_process.h"

namespace lockstep::router {

// The series of the template renderers, made at start so that each one reads 0 before its first
// event. The registry owns them and must outlive the object. Names and labels: docs/metrics.md.
struct RendererMetrics {
  RendererMetrics(prometheus::Registry& registry, const std::string& model);

  // Counts the end of a renderer; from any thread.
  void Count(RendererEnd end) const { ends_total.at(static_cast<size_t>(end))->Increment(); }

  std::array<prometheus::Counter*, 4> ends_total;  // by RendererEnd
};

}  // namespace lockstep::router
