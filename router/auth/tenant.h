#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::router {

// A user of the router with its limits. A limit of 0 does not limit.
struct Tenant {
  std::string name;  // fairness id, label of metrics
  // Prefixes are shared within a group only. Otherwise the time to a first token would show what
  // other tenants have asked. By default the name: a group of one.
  std::string cache_group = {};
  uint32_t max_open_requests = 0;  // at once
  double tokens_per_second = 0;    // of prompts and outputs together
  double burst_tokens = 0;         // on top of what the rate gives; one second's worth by default
  double weight = 1.0;             // share when tenants compete; kMinWeight to kMaxWeight

  static constexpr double kMinWeight = 0.001;
  static constexpr double kMaxWeight = 1000;
};

// Empty for null, when no keys are asked for.
inline std::string_view NameOf(const Tenant* tenant) {
  return tenant == nullptr ? std::string_view() : std::string_view(tenant->name);
}

}  // namespace lockstep::router
