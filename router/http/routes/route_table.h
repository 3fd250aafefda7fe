#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "router/front/connection/http_metrics.h"
#include "router/http/routes/route.h"

namespace lockstep::router {

// The paths of an HTTP API. Immutable; safe to use from any thread.
class RouteTable {
 public:
  // All paths of the router. docs/adding/http-api.md shows how to add one.
  static RouteTable All();
  // No two routes may cover the same path.
  explicit RouteTable(std::vector<Route> routes);

  // Null: the path does not exist.
  const Route* Find(std::string_view path) const;
  // The API whose form errors at this path have, or below the path of its route. Null: OpenAI's.
  const Dialect* DialectOf(std::string_view path) const;
  // The labels of the metrics.
  std::vector<RouteLabel> Labels() const;
  // A hint for a path that does not exist, as the end of a sentence.
  std::string HintFor(std::string_view path) const;

 private:
  // "/v1/a, /v1/b and /v1/c".
  std::string VersionedPaths() const;

  std::vector<Route> routes_;
};

}  // namespace lockstep::router
