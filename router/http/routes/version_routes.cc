#include <utility>
#include <vector>

#include "common/version.h"
#include "router/http/json/json_writer.h"
#include "router/http/routes/route.h"

namespace lockstep::router {

std::vector<Route> VersionRoutes() {
  return {
      {.path = "/version", .has_metric = true, .answer = [](RouteContext&, RoutedRequest request) {
         std::string body;
         JsonWriter json(body);
         json.BeginObject().Key("version").String(Version());
         json.Key("commit").String(GitCommit()).EndObject();
         return Reply(request, {}, std::move(body));
       }}};
}

}  // namespace lockstep::router
