#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// A TCP endpoint, as in flags and log lines.
struct Address {
  std::string host;   // name or number; an IPv6 number without its brackets
  uint16_t port = 0;  // 0 asks the system for a free port when listening

  friend bool operator==(const Address&, const Address&) = default;
};

// Parses "host:port" or "[v6]:port". INVALID_ARGUMENT quotes `text` and says what was expected.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// The inverse: brackets around a host that contains a colon.
std::string FormatAddress(const Address& address);

// Parses the decimal digits of a number up to 65535. Any number of digits is allowed.
std::optional<uint16_t> ParsePort(std::string_view digits);

// True if the address can be reached from this machine only: "localhost", ::1, or 127.a.b.c. Other
// names count as reachable from elsewhere, even if they resolve to this machine.
bool IsLoopback(const Address& address);

}  // namespace lockstep
