#include "router/front/connection/http_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "router/front/connection/request_target.h"

namespace lockstep::router {
namespace {

// Statuses are labels, so they are a fixed list. The last one stands for all others.
constexpr std::array<int, 16> kStatuses = {200, 400, 401, 403, 404, 405, 413, 414,
                                           415, 429, 431, 499, 501, 503, 504, 500};

size_t StatusIndex(int status) {
  return static_cast<size_t>(std::find(kStatuses.begin(), kStatuses.end() - 1, status) -
                             kStatuses.begin());
}

}  // namespace

HttpMetrics::HttpMetrics(prometheus::Registry& registry, const std::string& model,
                         std::vector<RouteLabel> routes)
    : routes_(std::move(routes)) {
  const prometheus::Labels labels = {{"model", model}};
  const auto gauge = [&](const char* name, const char* what) {
    return &prometheus::BuildGauge().Name(name).Help(what).Labels(labels).Register(registry).Add(
        {});
  };
  connections = gauge("lockstep_router_http_connections", "Open connections of the HTTP API.");
  requests_in_flight =
      gauge("lockstep_router_http_requests_in_flight", "HTTP requests that are being answered.");
  auto& refused = prometheus::BuildCounter()
                      .Name("lockstep_router_http_connections_refused_total")
                      .Help("Connections closed for a limit, a handshake, or what was sent.")
                      .Labels(labels)
                      .Register(registry);
  refused_for_limit = &refused.Add({{"reason", "limit"}});
  refused_for_address = &refused.Add({{"reason", "address"}});
  refused_for_handshake = &refused.Add({{"reason", "handshake"}});
  ended_for_violation = &refused.Add({{"reason", "violation"}});
  auto& requests = prometheus::BuildCounter()
                       .Name("lockstep_router_http_requests_total")
                       .Help("HTTP requests by route and status code.")
                       .Labels(labels)
                       .Register(registry);
  const auto add_route = [&](const std::string& route) {
    auto& row = requests_total_.emplace_back();
    for (const int status : kStatuses) {
      row.push_back(&requests.Add({{"route", route}, {"code", fmt::format("{}", status)}}));
    }
  };
  for (const RouteLabel& route : routes_) add_route(route.path);
  add_route("other");
}

size_t HttpMetrics::RouteOf(std::string_view path) const {
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (IsAtPath(path, routes_[i].path, routes_[i].covers_subpaths)) return i;
  }
  return routes_.size();
}

void HttpMetrics::CountRequest(std::string_view path, int http_status) const {
  requests_total_[RouteOf(path)][StatusIndex(http_status)]->Increment();
}

}  // namespace lockstep::router
