#include <utility>
#include <vector>

#include "router/http/routes/route.h"

namespace lockstep::router {

std::vector<Route> StatusRoutes() {
  return {{.path = "/status.json", .answer = [](RouteContext& context, RoutedRequest request) {
             const bool for_tenants = context.api.gatekeeper.asks_for_keys();
             return Reply(request, {},
                          for_tenants ? context.status.OfTenant(NameOf(request.tenant.get()))
                                      : context.status.OfFleet());
           }}};
}

}  // namespace lockstep::router
