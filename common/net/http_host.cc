#include "common/net/http_host.h"

#include <absl/strings/ascii.h>
#include <arpa/inet.h>

#include <algorithm>
#include <cstddef>

#include "common/net/address.h"

namespace lockstep {
namespace {

// "unreserved" and "sub-delims" of RFC 3986.
bool IsNameCharacter(char c) {
  constexpr std::string_view kOthers = "-._~!$&'()*+,;=";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kOthers.find(c) != std::string_view::npos;
}

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

bool IsRegisteredName(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (IsNameCharacter(name[i])) continue;
    const std::string_view digits = name.substr(i + 1, 2);
    if (name[i] != '%' || digits.size() < 2 ||
        !std::all_of(digits.begin(), digits.end(), IsHexDigit)) {
      return false;
    }
    i += 2;
  }
  return !name.empty();
}

// `literal` has no brackets.
bool IsV6(std::string_view literal) {
  in6_addr address;
  return ::inet_pton(AF_INET6, std::string(literal).c_str(), &address) == 1 &&
         literal.find('\0') == std::string_view::npos;
}

}  // namespace

std::optional<HttpHost> ParseHttpHost(std::string_view text) {
  HttpHost host;
  size_t name_end = text.find(':');
  if (text.starts_with('[')) {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos) return std::nullopt;
    name_end = bracket + 1;
    host.is_v6 = true;
    host.name = text.substr(1, bracket - 1);
    if (!IsV6(host.name)) return std::nullopt;
  } else {
    host.name = text.substr(0, name_end);
    if (!IsRegisteredName(host.name)) return std::nullopt;
  }
  host.name = absl::AsciiStrToLower(host.name);
  const std::string_view rest = text.substr(std::min(name_end, text.size()));
  if (rest.empty()) return host;
  if (rest[0] != ':') return std::nullopt;
  if (rest.size() == 1) return host;
  host.port = ParsePort(rest.substr(1));
  if (!host.port.has_value()) return std::nullopt;
  return host;
}

bool IsLocalName(std::string_view name) {
  constexpr std::string_view kLocal = ".localhost";
  return name == "localhost" || name == "host.docker.internal" ||
         (name.size() > kLocal.size() && name.ends_with(kLocal));
}

bool IsThisMachine(const HttpHost& host) {
  return IsLocalName(host.name) || IsLoopback({.host = host.name});
}

}  // namespace lockstep
