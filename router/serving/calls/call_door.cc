#include "router/serving/calls/call_door.h"

#include "common/status.h"

namespace lockstep::router {

absl::Status CallDoor::Identify(std::string_view authorization) {
  absl::StatusOr<std::shared_ptr<const Tenant>> tenant =
      context_.gatekeeper.Identify(authorization);
  if (tenant.ok()) {
    tenant_ = *std::move(tenant);
  } else {
    Refuse(tenant.status());
  }
  return tenant.status();
}

absl::Status CallDoor::Admit() {
  absl::StatusOr<std::unique_ptr<Gatekeeper::Pass>> pass =
      context_.gatekeeper.Admit(tenant_.get(), context_.clock.Now());
  if (pass.ok()) {
    pass_ = *std::move(pass);
  } else {
    Refuse(pass.status());
  }
  return pass.status();
}

void CallDoor::Refuse(const absl::Status& status) {
  pass_.reset();
  context_.CountEnd(status.code());
}

}  // namespace lockstep::router
