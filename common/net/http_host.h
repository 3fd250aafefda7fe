#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The server named by a header field Host or by a request's target (RFC 9110, 7.2; RFC 3986,
// 3.2.2).
struct HttpHost {
  std::string name;                   // in lower case; an IPv6 number has no brackets
  std::optional<uint16_t> port = {};  // none: the scheme's default
  bool is_v6 = false;

  friend bool operator==(const HttpHost&, const HttpHost&) = default;
};

// Parses "host", "host:port", "[v6]" or "[v6]:port"; the port may be empty. Nothing for anything
// else: a user before an @, a path, a space, a character or an escape that names cannot have, a
// port above 65535, no name.
std::optional<HttpHost> ParseHttpHost(std::string_view text);

// True if `name`, in lower case, can only mean this machine: "localhost" and names under it (RFC
// 6761), and "host.docker.internal", which Docker Desktop forwards to its host's loopback.
bool IsLocalName(std::string_view name);
// True for such a name, 127.a.b.c or ::1.
bool IsThisMachine(const HttpHost& host);

}  // namespace lockstep
