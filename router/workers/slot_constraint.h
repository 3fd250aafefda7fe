#pragma once

#include "lockstep/worker/v1/worker.pb.h"
#include "router/core/messages/request.h"

namespace lockstep::router {

// Sets the constraint of a started slot, if its request has one.
void EncodeConstraint(const Request& request, worker::v1::StartedSlot* out);

}  // namespace lockstep::router
