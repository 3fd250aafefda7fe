#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace lockstep::router {

// Finds the addresses behind a name.
class NameResolver {
 public:
  virtual ~NameResolver() = default;
  // At least one address of `host`, as numbers, in any order. May take as long as the network does.
  virtual absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host) = 0;
};

// The system's own: DNS, /etc/hosts, or whatever else it was told to ask. Of a host with IPv4 and
// IPv6 addresses, those of IPv4: both lead to the same workers.
class SystemResolver final : public NameResolver {
 public:
  absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host) override;
};

}  // namespace lockstep::router
