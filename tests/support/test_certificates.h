#pragma once

#include <memory>
#include <string>

#include "tests/common/temp_folder.h"

namespace lockstep::testing {

// A certificate authority of a test, made on the spot: keys on P-256, valid for an hour.
class TestAuthority {
 public:
  struct Identity {
    std::string cert_pem;
    std::string key_pem;
  };

  explicit TestAuthority(const std::string& name);
  ~TestAuthority();

  const std::string& cert_pem() const { return cert_pem_; }
  // For the server or client `dns_name`, and for a server at 127.0.0.1 where `at_loopback`.
  Identity Issue(const std::string& dns_name, bool at_loopback = true) const;

  // Writes PREFIX.pem and PREFIX.key, each at once, so that a reader sees the old or the new one.
  static void Write(const TempFolder& folder, const std::string& prefix, const Identity& identity);
  // Likewise a file of any content; returns its path.
  static std::string Replace(const TempFolder& folder, const std::string& name,
                             const std::string& content);

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
  std::string cert_pem_;
};

}  // namespace lockstep::testing
