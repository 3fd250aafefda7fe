#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// A TCP endpoint as flags and log lines spell it.
struct Address {
  std::string host;   // name or number; an IPv6 number without its brackets
  uint16_t port = 0;  // 0 asks the system for a free port when listening

  friend bool operator==(const Address&, const Address&) = default;
};

// "host:port" or "[v6]:port". INVALID_ARGUMENT quoting `text` and saying what was expected.
absl::StatusOr<Address> ParseAddress(std::string_view text);

// The inverse: brackets around a host that contains a colon.
std::string FormatAddress(const Address& address);

// Digits, as many as there are, of a number up to 65535.
std::optional<uint16_t> ParsePort(std::string_view digits);

// Reachable from this machine only: "localhost", ::1, or 127.a.b.c. Other names count as reachable
// from elsewhere, whatever they resolve to.
bool IsLoopback(const Address& address);

}  // namespace lockstep
