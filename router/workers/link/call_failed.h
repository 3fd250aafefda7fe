#pragma once

#include <absl/status/status.h>

#include <string_view>

// What the end of a call to a worker says.
namespace lockstep::router {

// The replica has no worker, for any status of the call. So the result is UNAVAILABLE,
// with the call's code and message.
absl::Status CallFailed(std::string_view call, const absl::Status& status);

// A worker refuses a claim with a code that the connection itself never produces. If the call ends
// otherwise before the grant, it is unknown whether the claim arrived.
bool IsRefusal(const absl::Status& status);

}  // namespace lockstep::router
