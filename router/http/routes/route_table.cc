#include "router/http/routes/route_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "router/serving/validation/field_checks.h"

namespace lockstep::router {

// The files of this folder that have routes, in the order of docs/api.md.
#define LOCKSTEP_FOR_EACH_ROUTE_FILE(routes)                                                  \
  routes(GenerationRoutes) routes(TextRoutes) routes(ModelRoutes) routes(TokenizerInfoRoutes) \
      routes(HealthRoutes) routes(VersionRoutes) routes(MetricsRoutes) routes(StatusRoutes)   \
          routes(PageRoutes)

#define LOCKSTEP_DECLARE_ROUTES(name) std::vector<Route> name();
#define LOCKSTEP_APPEND_ROUTES(name) \
  for (Route & route : name()) all.push_back(std::move(route));

LOCKSTEP_FOR_EACH_ROUTE_FILE(LOCKSTEP_DECLARE_ROUTES)

RouteTable RouteTable::All() {
  std::vector<Route> all;
  LOCKSTEP_FOR_EACH_ROUTE_FILE(LOCKSTEP_APPEND_ROUTES)
  return RouteTable(std::move(all));
}

RouteTable::RouteTable(std::vector<Route> routes) : routes_(std::move(routes)) {
  for (const Route& route : routes_) {
    for (const Route& other : routes_) {
      LOCKSTEP_CHECK(&route == &other || !route.Covers(other.path), "two routes cover {}",
                     other.path);
    }
  }
}

const Route* RouteTable::Find(std::string_view path) const {
  for (const Route& route : routes_) {
    if (route.Covers(path)) return &route;
  }
  return nullptr;
}

const Dialect* RouteTable::DialectOf(std::string_view path) const {
  for (const Route& route : routes_) {
    if (IsAtPath(path, route.path, /*covers_subpaths=*/true) && route.dialect != nullptr) {
      return route.dialect;
    }
  }
  return nullptr;
}

std::vector<RouteLabel> RouteTable::Labels() const {
  std::vector<RouteLabel> labels;
  for (const Route& route : routes_) {
    if (!route.has_metric) continue;
    labels.push_back({.path = route.path, .covers_subpaths = route.covers_subpaths});
  }
  return labels;
}

std::string RouteTable::VersionedPaths() const {
  std::vector<std::string_view> paths;
  for (const Route& route : routes_) {
    if (route.path.starts_with("/v1/")) paths.push_back(route.path);
  }
  std::ranges::sort(paths);
  if (paths.size() < 2) return fmt::format("{}", fmt::join(paths, ""));
  const std::string_view last = paths.back();
  paths.pop_back();
  return fmt::format("{} and {}", fmt::join(paths, ", "), last);
}

std::string RouteTable::HintFor(std::string_view path) const {
  constexpr std::string_view kVersion = "/v1";
  const auto at = [](std::string_view there) { return fmt::format("it is at {}", Quote(there)); };
  if (path.ends_with('/') && Find(path.substr(0, path.size() - 1)) != nullptr) {
    return at(path.substr(0, path.size() - 1));
  }
  const bool versioned = path.starts_with("/v1/");
  if (versioned && path != "/v1/" && Find(path.substr(kVersion.size())) != nullptr) {
    return at(path.substr(kVersion.size()));
  }
  const std::string with_version = std::string(kVersion) + std::string(path);
  if (!versioned && Find(with_version) != nullptr) return at(with_version);
  if (versioned) {
    return fmt::format("there are {}", VersionedPaths());
  }
  return "the APIs are under /v1";
}

}  // namespace lockstep::router
