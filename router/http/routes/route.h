#pragma once

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/front/connection/request_target.h"
#include "router/http/dialects/dialect.h"
#include "router/http/messages/http_head.h"
#include "router/http/messages/http_request.h"
#include "router/http/routes/status_json.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// The parts that routes use for their answers. Outlives all exchanges.
struct RouteContext {
  ApiContext& api;
  const prometheus::Registry& registry;
  StatusJson status;
};

// A request on its way to its route.
struct RoutedRequest {
  HttpRequest http;
  std::shared_ptr<const Tenant> tenant;  // null: no keys are required, or the path needs none
  std::shared_ptr<OutputSignal> signal;
  const Dialect* dialect = nullptr;  // Route::dialect, also of a path below the route's
};

enum class Audience {
  kEverybody,  // no key is needed: health checks and the page
  kTenants,    // a key is needed if the router has keys
};

// A path of the public HTTP API with its handler.
struct Route {
  std::string path;              // without the query
  bool covers_subpaths = false;  // everything below "path/" too
  // As the field Allow lists them. OPTIONS is answered by the gateway, HEAD as GET.
  std::string_view methods = "GET, HEAD, OPTIONS";
  Audience audience = Audience::kTenants;
  // POST has a JSON body. Its type and coding are checked before it is read.
  bool reads_json = false;
  // A refusal counts as a request that ended (lockstep_router_requests_total).
  bool generates = false;
  bool has_metric = false;  // false: lockstep_router_http_requests_total counts it as "other"
  // The API whose form errors have; null: OpenAI's. It must outlive the route.
  const Dialect* dialect = nullptr;
  // Never returns null. Runs on a thread of the connections, so it must not block.
  std::function<std::shared_ptr<Exchange>(RouteContext& context, RoutedRequest request)> answer;

  bool Covers(std::string_view asked) const { return IsAtPath(asked, path, covers_subpaths); }
  bool Takes(std::string_view method) const;
};

// POST `path` generates text as this API does it. `dialect` must outlive the route.
Route GenerationRoute(std::string path, const Dialect& dialect);

// --- for routes ---

// A complete answer.
std::shared_ptr<Exchange> Reply(RoutedRequest& request, HttpHead head, std::string body);
// An error in the form of the request's API.
std::shared_ptr<Exchange> ReplyError(const RouteContext& context, RoutedRequest& request,
                                     const absl::Status& status);
// The same for errors without a status code.
struct OpenAiError;
std::shared_ptr<Exchange> ReplyError(const RouteContext& context, RoutedRequest& request,
                                     const OpenAiError& error, HttpHeaders headers = {});

}  // namespace lockstep::router
