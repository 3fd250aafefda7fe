#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "router/auth/tenant.h"

namespace lockstep::router {

// The tenants and the hashes of their API keys; immutable, safe to use from any thread. The keys
// themselves are in no file and in no memory for longer than a comparison: a key is as hard to
// guess as its 256 random bits, so a plain SHA-256 protects it at rest.
//
//   {"tenants": [{"name": "acme", "key_sha256": ["<64 hex digits>", ...], "cache_group": "acme",
//                 "max_open_requests": 64, "tokens_per_second": 50000, "burst_tokens": 200000,
//                 "weight": 1.0}, ...]}
//
// Several keys of a tenant let one replace the other without a gap.
class TenantTable {
 public:
  static constexpr size_t kMaxKeys = 10'000;
  static constexpr size_t kMaxNameBytes = 64;  // of letters, digits and "._-"

  // `file_name` appears in errors. INVALID_ARGUMENT naming the member and what was expected.
  static absl::StatusOr<TenantTable> Parse(std::string_view text, std::string_view file_name);

  // The tenant of the key; null for an unknown key. Takes the same time for every key.
  std::shared_ptr<const Tenant> FindByKey(std::string_view key) const;

  size_t num_tenants() const { return tenants_.size(); }
  size_t num_keys() const { return keys_.size(); }

 private:
  using KeyHash = std::array<uint8_t, 32>;
  struct Key {
    KeyHash hash;
    size_t tenant;  // of tenants_
  };
  friend class TenantTableParser;

  std::vector<std::shared_ptr<const Tenant>> tenants_;
  std::vector<Key> keys_;
};

// The key in an "authorization" header or metadata value: "Bearer KEY". Empty when there is none.
std::string_view BearerKey(std::string_view authorization);

}  // namespace lockstep::router
