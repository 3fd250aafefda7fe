#include <utility>
#include <vector>

#include "router/http/routes/route.h"
#include "router/http/routes/tokenizer_info.h"

namespace lockstep::router {

std::vector<Route> TokenizerInfoRoutes() {
  return {{.path = "/tokenizer_info",
           .has_metric = true,
           .answer = [](RouteContext& context, RoutedRequest request) {
             return Reply(request, {},
                          TokenizerInfo(*context.api.model.tokenizer, context.api.Facts()));
           }}};
}

}  // namespace lockstep::router
