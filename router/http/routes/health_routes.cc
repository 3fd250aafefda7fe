#include <string_view>
#include <utility>
#include <vector>

#include "router/http/json/json_writer.h"
#include "router/http/routes/route.h"

namespace lockstep::router {
namespace {

constexpr std::string_view kDeaf = "no connections are accepted";

std::string StatusBody(std::string_view status) {
  std::string body;
  JsonWriter(body).BeginObject().Key("status").String(status).EndObject();
  return body;
}

// 200 while the process and this thread of it are alive. /ready says whether requests are taken.
std::shared_ptr<Exchange> AnswerHealth(RouteContext& context, RoutedRequest request) {
  const bool accepting = context.api.accepting();
  return Reply(request, {.status = accepting ? 200 : 503}, StatusBody(accepting ? "ok" : kDeaf));
}

// The same in SageMaker's form.
std::shared_ptr<Exchange> AnswerPing(RouteContext& context, RoutedRequest request) {
  return Reply(request,
               {.status = context.api.accepting() ? 200 : 503, .content_type = "text/plain"}, "");
}

std::shared_ptr<Exchange> AnswerReady(RouteContext& context, RoutedRequest request) {
  const bool accepting = context.api.accepting();
  const bool ready = context.api.engine.ready() && accepting;
  const std::string_view why = context.api.engine.draining() ? "draining"
                               : accepting                   ? "no worker"
                                                             : kDeaf;
  return Reply(request, {.status = ready ? 200 : 503}, StatusBody(ready ? "ready" : why));
}

}  // namespace

std::vector<Route> HealthRoutes() {
  return {
      {.path = "/health",
       .audience = Audience::kEverybody,
       .has_metric = true,
       .answer = AnswerHealth},
      {.path = "/ready",
       .audience = Audience::kEverybody,
       .has_metric = true,
       .answer = AnswerReady},
      {.path = "/ping",
       .methods = "GET, HEAD, POST, OPTIONS",
       .audience = Audience::kEverybody,
       .has_metric = true,
       .answer = AnswerPing},
  };
}

}  // namespace lockstep::router
