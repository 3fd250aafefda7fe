#pragma once

#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <utility>

#include "router/front/connection/exchange.h"
#include "router/front/connection/output_signal.h"
#include "router/http/browser_policy.h"
#include "router/http/messages/http_request.h"
#include "router/http/routes/route.h"
#include "router/http/routes/route_table.h"
#include "router/serving/calls/api_context.h"

namespace lockstep::router {

// Finds the route of a request, and decides who may ask it. Knows nothing of sockets. Safe to use
// from any thread.
//
// If the router has API keys, only routes for everybody need none. A request with a body is shown
// twice: its header first (`body_follows`), then all of it. It is refused by its header alone if
// its key is wrong, if its body is no JSON, or if its tenant is at a limit and the body is large.
class Gateway {
 public:
  // Context and registry must outlive the object and all of its exchanges.
  Gateway(ApiContext& context, const prometheus::Registry& registry, RouteTable routes,
          BrowserPolicy browsers = BrowserPolicy())
      : routes_(std::move(routes)),
        browsers_(std::move(browsers)),
        context_{.api = context, .registry = registry, .status = StatusJson(context)} {}

  // Null only for a header: the body must be read first.
  std::shared_ptr<Exchange> Handle(HttpRequest http, std::shared_ptr<OutputSignal> signal);

  // The answer to a request that cannot be read, or that has no room. From status 500 on, it asks
  // clients to retry.
  std::shared_ptr<Exchange> RefuseUnread(const HttpRequest& http, int http_status,
                                         std::string message,
                                         std::shared_ptr<OutputSignal> signal) const;

  const RouteTable& routes() const { return routes_; }

 private:
  // Call after the checks of browsers_.
  std::shared_ptr<Exchange> Answer(RoutedRequest request);
  // Checks the header of a request before its body. Null: read the body.
  std::shared_ptr<Exchange> CheckHeader(const Route* route, RoutedRequest& request);
  // The answer if the path does not have the method, or does not exist.
  std::shared_ptr<Exchange> Refuse(const Route* route, RoutedRequest& request) const;

  const RouteTable routes_;
  const BrowserPolicy browsers_;
  RouteContext context_;
};

}  // namespace lockstep::router
