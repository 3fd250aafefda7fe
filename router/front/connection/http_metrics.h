#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::router {

// Every series of the HTTP API, made at start so that each one reads 0 before its first event.
// Names and labels: docs/metrics.md. The registry owns the series and outlives the object; all of
// them may be updated from any thread.
struct HttpMetrics {
  HttpMetrics(prometheus::Registry& registry, const std::string& model);

  // One request that was answered, or whose client left before (499). An empty path: it was not
  // read.
  void CountRequest(std::string_view path, int http_status) const;

  prometheus::Gauge* connections;
  prometheus::Gauge* requests_in_flight;
  prometheus::Counter* refused_for_limit;
  prometheus::Counter* refused_for_address;
  prometheus::Counter* refused_for_handshake;
  prometheus::Counter* ended_for_violation;

 private:
  std::vector<std::vector<prometheus::Counter*>> requests_total_;  // by route and status
};

}  // namespace lockstep::router
