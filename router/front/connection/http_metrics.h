#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

// A path that is a label of metrics.
struct RouteLabel {
  std::string path;
  bool covers_subpaths = false;  // everything below "path/" counts as the path
};

// All series of the HTTP API. They are made at start, so that each reads 0 before its first event.
// Names and labels: docs/metrics.md. The registry owns the series and must outlive the object. Any
// thread may update them.
struct HttpMetrics {
  // `routes`: the paths that are counted apart. All others are counted as "other".
  HttpMetrics(prometheus::Registry& registry, const std::string& model,
              std::vector<RouteLabel> routes);

  // Counts a request that was answered, or that its client gave up (499). `path` is empty if the
  // request was not read.
  void CountRequest(std::string_view path, int http_status) const;

  prometheus::Gauge* connections;
  prometheus::Gauge* requests_in_flight;
  prometheus::Counter* refused_for_limit;
  prometheus::Counter* refused_for_address;
  prometheus::Counter* refused_for_handshake;
  prometheus::Counter* ended_for_violation;

 private:
  size_t RouteOf(std::string_view path) const;

  const std::vector<RouteLabel> routes_;
  // By route and status. The last route is "other".
  std::vector<std::vector<prometheus::Counter*>> requests_total_;
};

}  // namespace lockstep::router
