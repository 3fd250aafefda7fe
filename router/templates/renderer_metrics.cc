#include "router/templates/renderer_metrics.h"

namespace lockstep::router {
namespace {

constexpr std::array<const char*, 4> kEndNames = {"time", "memory", "crash", "gone"};

}  // namespace

RendererMetrics::RendererMetrics(prometheus::Registry& registry, const std::string& model) {
  auto& family = prometheus::BuildCounter()
                     .Name("lockstep_router_template_renderer_ends_total")
                     .Help("Processes that rendered the chat template and ended.")
                     .Labels({{"model", model}})
                     .Register(registry);
  for (size_t i = 0; i < kEndNames.size(); ++i) {
    ends_total[i] = &family.Add({{"reason", kEndNames[i]}});
  }
}

}  // namespace lockstep::router
