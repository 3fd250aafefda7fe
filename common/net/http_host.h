#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

// The server that a request means, as the header field Host and the targets of requests name it
// (RFC 9110, 7.2; RFC 3986, 3.2.2).
struct HttpHost {
  std::string name;                   // in lower case; an IPv6 number has no brackets
  std::optional<uint16_t> port = {};  // none: the scheme's own
  bool is_v6 = false;

  friend bool operator==(const HttpHost&, const HttpHost&) = default;
};

// "host", "host:port", "[v6]" or "[v6]:port", where the port may be empty. Nothing for everything
// else: a user before an @, a path, a space, a character or an escape that no name has, a port
// above 65535, no name at all.
std::optional<HttpHost> ParseHttpHost(std::string_view text);

// Only this machine has the name, which is in lower case: "localhost" and the names under it
// (RFC 6761), and "host.docker.internal", which Docker Desktop forwards to its host's loopback.
bool IsLocalName(std::string_view name);
// Such a name, 127.a.b.c or ::1.
bool IsThisMachine(const HttpHost& host);

}  // namespace lockstep
