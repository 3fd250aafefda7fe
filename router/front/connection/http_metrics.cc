#include "router/front/connection/http_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace lockstep::router {
namespace {

// Paths and statuses are labels, so there are only those that the gateway has; the last of each
// stands for all others.
constexpr std::array<std::string_view, 12> kRoutes = {"/v1/completions", "/v1/chat/completions",
                                                      "/v1/models",      "/tokenize",
                                                      "/detokenize",     "/tokenizer_info",
                                                      "/health",         "/ready",
                                                      "/ping",           "/version",
                                                      "/metrics",        "other"};
constexpr std::array<int, 16> kStatuses = {200, 400, 401, 403, 404, 405, 413, 414,
                                           415, 429, 431, 499, 501, 503, 504, 500};

template <typename Values, typename Value>
size_t IndexOf(const Values& values, const Value& value) {
  return static_cast<size_t>(std::find(values.begin(), values.end() - 1, value) - values.begin());
}

size_t RouteOf(std::string_view path) {
  constexpr std::string_view kModels = "/v1/models";
  if (path.starts_with(kModels) && path.substr(kModels.size()).starts_with('/')) path = kModels;
  return IndexOf(kRoutes, path);
}

}  // namespace

HttpMetrics::HttpMetrics(prometheus::Registry& registry, const std::string& model) {
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
  for (const std::string_view route : kRoutes) {
    auto& row = requests_total_.emplace_back();
    for (const int status : kStatuses) {
      row.push_back(
          &requests.Add({{"route", std::string(route)}, {"code", fmt::format("{}", status)}}));
    }
  }
}

void HttpMetrics::CountRequest(std::string_view path, int http_status) const {
  requests_total_[RouteOf(path)][IndexOf(kStatuses, http_status)]->Increment();
}

}  // namespace lockstep::router
