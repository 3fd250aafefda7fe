#pragma once

#include <absl/status/statusor.h>

#include <string_view>

#include "common/net/address.h"

namespace lockstep::cli {

struct ServerUrl {
  Address address;
  bool tls = false;
};

// "127.0.0.1:8000", "http://127.0.0.1:8000" and "http://127.0.0.1:8000/v1" name the same server;
// "https://..." one with TLS. Without a port it is 8000. INVALID_ARGUMENT quoting `text`.
absl::StatusOr<ServerUrl> ParseServerUrl(std::string_view text);

}  // namespace lockstep::cli
