#include "router/router_config.h"

#include <algorithm>
#include <string_view>

#include "common/address.h"
#include "common/status.h"
#include "router/engine/violations.h"

namespace lockstep::router {
namespace {

constexpr size_t kMaxWorkers = 1024;

}  // namespace

std::vector<WorkerClientConfig> RouterConfig::WorkerConfigs() const {
  std::vector<WorkerClientConfig> configs;
  for (const std::string& address : workers) {
    configs.push_back(worker);
    configs.back().address = address;
    configs.back().index = static_cast<uint32_t>(configs.size() - 1);
  }
  return configs;
}

absl::Status RouterConfig::Validate() const {
  Violations violations;
  const auto check_exposure = [&](std::string_view where, const std::string& text) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (address.ok() && !insecure && !IsLoopback(*address)) {
      violations.Add(
          fmt::format("{}{} is not this machine and there is no TLS; pass --insecure to allow it",
                      where, text));
    }
  };
  violations.Require(!model.empty(), "model: expected a model folder or a *.gguf file");
  check_exposure("listen: ", server.listen);
  if (!http.listen.empty()) check_exposure("http_listen: ", http.listen);
  violations.Require(!workers.empty() && workers.size() <= kMaxWorkers,
                     "worker: expected 1 to 1024 addresses");
  for (ptrdiff_t i = 0; i < std::ssize(workers); ++i) {
    check_exposure("worker: ", workers[i]);
    if (i > 0) violations.Merge(ParseAddress(workers[i]).status(), "worker: ");
    if (std::find(workers.begin(), workers.begin() + i, workers[i]) != workers.begin() + i) {
      violations.Add(fmt::format("worker: {} comes twice", workers[i]));
    }
  }
  check_exposure("admin_listen: ", admin_listen);
  violations.Merge(ParseAddress(admin_listen).status(), "admin_listen: ");
  violations.Require(priority_ageing > absl::ZeroDuration() && priority_ageing <= absl::Hours(24),
                     "priority_ageing: must be positive and at most 24h");
  violations.Require(drain_timeout >= absl::ZeroDuration() && drain_timeout <= absl::Hours(24),
                     "drain_timeout: must be from 0 to 24h");
  violations.Merge(server.Validate());
  violations.Merge(http.Validate());
  violations.Require(ParsePlacementPolicy(placement).has_value(),
                     "placement: expected prefix, least-loaded or round-robin");
  if (!workers.empty()) violations.Merge(WorkerConfigs().front().Validate());
  return violations.ToStatus();
}

}  // namespace lockstep::router
