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
  absl::StatusOr<std::unique_ptr<Gatekeeper::Permit>> permit =
      context_.gatekeeper.Admit(tenant_.get(), context_.clock.Now());
  if (permit.ok()) {
    permit_ = *std::move(permit);
  } else {
    Refuse(permit.status());
  }
  return permit.status();
}

void CallDoor::Refuse(const absl::Status& status) {
  permit_.reset();
  context_.CountEnd(status.code());
}

}  // namespace lockstep::router
