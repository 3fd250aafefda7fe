#include <utility>
#include <vector>

#include "common/runtime/process_metrics.h"
#include "router/engine/vllm_metrics.h"
#include "router/http/routes/route.h"

namespace lockstep::router {
namespace {

// They show all tenants, so no tenant may see them.
std::shared_ptr<Exchange> AnswerMetrics(RouteContext& context, RoutedRequest request) {
  if (context.api.gatekeeper.asks_for_keys()) {
    return ReplyError(context, request,
                      absl::PermissionDeniedError("the admin port has the metrics"));
  }
  return Reply(request, {.content_type = "text/plain; version=0.0.4; charset=utf-8"},
               MetricsText(VllmMetrics(context.registry)));
}

}  // namespace

std::vector<Route> MetricsRoutes() {
  return {{.path = "/metrics", .has_metric = true, .answer = AnswerMetrics}};
}

}  // namespace lockstep::router
