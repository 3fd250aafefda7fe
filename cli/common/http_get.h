#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>

#include "common/net/address.h"

namespace lockstep::cli {

struct HttpReply {
  int status = 0;  // 200
  std::string body;
};

// GET http://address/path, with `api_key` as bearer token unless it is empty. UNAVAILABLE or
// DEADLINE_EXCEEDED naming the address.
absl::StatusOr<HttpReply> HttpGet(const Address& address, const std::string& path,
                                  absl::Duration timeout, const std::string& api_key = "");

}  // namespace lockstep::cli
