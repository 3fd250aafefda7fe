#include "router/router_config.h"

#include <string_view>

#include "common/address.h"
#include "common/status.h"
#include "router/engine/violations.h"

namespace lockstep::router {
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
  check_exposure("worker: ", worker.address);
  check_exposure("admin_listen: ", admin_listen);
  violations.Merge(ParseAddress(admin_listen).status(), "admin_listen: ");
  violations.Require(priority_ageing > absl::ZeroDuration() && priority_ageing <= absl::Hours(24),
                     "priority_ageing: must be positive and at most 24h");
  violations.Require(drain_timeout >= absl::ZeroDuration() && drain_timeout <= absl::Hours(24),
                     "drain_timeout: must be from 0 to 24h");
  violations.Merge(server.Validate());
  violations.Merge(worker.Validate());
  return violations.ToStatus();
}

}  // namespace lockstep::router
