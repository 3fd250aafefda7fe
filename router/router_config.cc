#include "router/router_config.h"

#include <string_view>

#include "common/address.h"
#include "common/status.h"

namespace lockstep::router {
namespace {

bool IsLoopback(const Address& address) {
  return address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
}

}  // namespace

absl::Status RouterConfig::Validate() const {
  std::string problems;
  const auto add = [&problems](std::string_view where, const absl::Status& status) {
    if (!status.ok()) {
      problems += fmt::format("{}{}{}", problems.empty() ? "" : "; ", where, Message(status));
    }
  };
  const auto check_exposure = [&](std::string_view where, const std::string& text) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    if (!address.ok()) {
      add(where, address.status());
    } else if (!insecure && !IsLoopback(*address)) {
      add(where, InvalidArgument("{} is not this machine and there is no TLS; pass --insecure to allow it",
                                 text));
    }
  };
  if (model.empty()) add("model: ", InvalidArgument("expected a model folder or a *.gguf file"));
  check_exposure("listen: ", server.listen);
  check_exposure("worker: ", worker.address);
  add("admin_listen: ", ParseAddress(admin_listen).status());
  if (priority_ageing <= absl::ZeroDuration() || priority_ageing > absl::Hours(24)) {
    add("priority_ageing: ", InvalidArgument("must be positive and at most 24h"));
  }
  if (drain_timeout < absl::ZeroDuration() || drain_timeout > absl::Hours(24)) {
    add("drain_timeout: ", InvalidArgument("must be from 0 to 24h"));
  }
  add("", server.Validate());
  add("worker ", worker.Validate());
  return problems.empty() ? absl::OkStatus() : InvalidArgument("{}", problems);
}

}  // namespace lockstep::router
