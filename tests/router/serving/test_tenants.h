#pragma once

#include <fmt/format.h>
#include <openssl/evp.h>

#include <string>
#include <vector>

#include "tests/support/test_certificates.h"

namespace lockstep::testing {

// A tenant as a tenant file writes it.
struct TestTenant {
  std::string name;
  std::vector<std::string> keys;
  std::string limits = {};  // further members: R"("max_open_requests": 1)"
};

inline std::string Sha256Hex(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

// Writes "tenants.json" at once; returns its path.
inline std::string WriteTenants(const TempFolder& folder, const std::vector<TestTenant>& tenants) {
  std::string text;
  for (const TestTenant& tenant : tenants) {
    std::string hashes;
    for (const std::string& key : tenant.keys) {
      hashes += fmt::format("{}\"{}\"", hashes.empty() ? "" : ", ", Sha256Hex(key));
    }
    text += fmt::format(R"({}{{"name": "{}", "key_sha256": [{}]{}{}}})", text.empty() ? "" : ", ",
                        tenant.name, hashes, tenant.limits.empty() ? "" : ", ", tenant.limits);
  }
  return TestAuthority::Replace(folder, "tenants.json",
                                fmt::format(R"({{"tenants": [{}]}})", text));
}

}  // namespace lockstep::testing
