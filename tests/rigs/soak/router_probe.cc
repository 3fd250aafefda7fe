#include "tests/rigs/soak/router_probe.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "common/status.h"
#include "tests/rigs/instant_worker/pacing.h"

namespace lockstep::bench {
namespace {

double ValueOf(const std::string& text, std::string_view name, std::string_view label = "") {
  const std::string series = fmt::format("lockstep_router_{}{{model=\"{}\"{}{}}}", name, kModelId,
                                         label.empty() ? "" : ",", label);
  return testing::MetricValue(text, series).value_or(0);
}

// The sum over all workers of one state's series.
double CountWorkers(const std::string& text, std::string_view state) {
  const std::string prefix = fmt::format(
      "lockstep_router_worker_state{{model=\"{}\",state=\"{}\",worker=\"", kModelId, state);
  double sum = 0;
  for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at + 1)) {
    sum += std::strtod(text.c_str() + text.find("} ", at) + 2, nullptr);
  }
  return sum;
}

}  // namespace

absl::StatusOr<RouterGauges> ReadGauges(const testing::ChildProcess& router) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text,
                            testing::HttpGet(router.admin_address(), "/metrics"));
  return RouterGauges{
      .used_blocks = ValueOf(text, "kv_blocks", "state=\"used\""),
      .fenced_blocks = ValueOf(text, "kv_blocks", "state=\"fenced\""),
      .running_requests = ValueOf(text, "running_requests"),
      .queue_requests = ValueOf(text, "queue_requests"),
      .queue_tokens = ValueOf(text, "queue_tokens"),
      .resumed = ValueOf(text, "requests_retried_total", "outcome=\"resumed\""),
      .failed = ValueOf(text, "requests_retried_total", "outcome=\"failed\""),
      .attached_workers = CountWorkers(text, "ready") + CountWorkers(text, "draining")};
}

absl::StatusOr<double> CountConnections(const testing::ChildProcess& router) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text,
                            testing::HttpGet(router.admin_address(), "/metrics"));
  return ValueOf(text, "http_connections");
}

absl::StatusOr<double> CountLeaks(const testing::ChildProcess& router) {
  absl::StatusOr<RouterGauges> gauges = absl::InternalError("never read");
  const absl::Status given_back = WaitUntil("all is given back", absl::Seconds(30), [&] {
    gauges = ReadGauges(router);
    return gauges.ok() && gauges->holds_nothing();
  });
  if (!gauges.ok()) return Annotate(gauges.status(), "the router at the end");
  return given_back.ok() ? 0 : gauges->held();
}

}  // namespace lockstep::bench
