#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace lockstep::router {

// Finds the addresses behind a name.
class NameResolver {
 public:
  virtual ~NameResolver() = default;
  // At least one numeric address of `host`, in any order. May take as long as the network takes.
  virtual absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host) = 0;
};

// The system's resolver: DNS, /etc/hosts, and other configured sources. If a host has
// IPv4 and IPv6 addresses, returns only the IPv4 ones, because both lead to the same workers.
class SystemResolver final : public NameResolver {
 public:
  absl::StatusOr<std::vector<std::string>> Resolve(const std::string& host) override;
};

}  // namespace lockstep::router
