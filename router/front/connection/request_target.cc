#include "router/front/connection/request_target.h"

#include <absl/strings/match.h>

#include <algorithm>
#include <cstddef>

#include "common/net/http_host.h"

namespace lockstep::router {
namespace {

constexpr const char* kBadHost = "the host is no name or address with an optional port";
constexpr const char* kBadTarget = "the target is no path, no URL of http or https, and no *";

bool HasPrefix(std::string_view text, std::string_view prefix) {
  return absl::StartsWithIgnoreCase(absl::string_view(text.data(), text.size()),
                                    absl::string_view(prefix.data(), prefix.size()));
}

// Printable ASCII without '#', which begins a fragment. Bytes above ASCII are allowed, because
// careless clients send them unescaped.
bool IsTargetText(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte != 0x7f && c != '#';
  });
}

std::string_view PathOf(std::string_view target) { return target.substr(0, target.find('?')); }

// `rest` is the URL after "http://".
TargetReading ReadUrl(std::string_view method, std::string_view rest) {
  const size_t host_end = rest.find_first_of("/?");
  const std::string_view host = rest.substr(0, host_end);
  if (!ParseHttpHost(host).has_value()) return {.refusal = kBadHost};
  const std::string_view path = PathOf(rest.substr(std::min(host_end, rest.size())));
  const std::string_view whole =
      method == "OPTIONS" && host_end == std::string_view::npos ? "*" : "/";
  return {.target = {.path = std::string(path.empty() ? whole : path), .host = std::string(host)}};
}

// An empty host is allowed.
bool IsHostField(std::string_view host) { return host.empty() || ParseHttpHost(host).has_value(); }

}  // namespace

TargetReading ReadTarget(std::string_view method, std::string_view target,
                         std::optional<std::string_view> host, bool http_1_0) {
  if (!host.has_value() && !http_1_0) return {.refusal = "HTTP/1.1 needs the field Host"};
  if (!IsHostField(host.value_or(""))) return {.refusal = kBadHost};
  if (!IsTargetText(target)) return {.refusal = kBadTarget};
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (HasPrefix(target, scheme)) return ReadUrl(method, target.substr(scheme.size()));
  }
  const bool for_server = method == "OPTIONS" && target == "*";
  // CONNECT's "host:port" is let through: no route matches it.
  if (!target.starts_with('/') && !for_server && method != "CONNECT")
    return {.refusal = kBadTarget};
  return {.target = {.path = std::string(PathOf(target)), .host = std::string(host.value_or(""))}};
}

TargetReading ReadTarget(const HeaderList& fields) {
  const std::string_view authority = fields.Find(":authority");
  const std::string_view host = authority.empty() ? fields.Find("host") : authority;
  if (!IsHostField(host)) return {.refusal = kBadHost};
  if (NamesTwoHosts(fields)) return {.refusal = "\":authority\" and \"host\" name different hosts"};
  const std::string_view target = fields.Find(":path");
  if (!IsTargetText(target)) return {.refusal = kBadTarget};
  return {.target = {.path = std::string(PathOf(target)), .host = std::string(host)}};
}

bool NamesTwoHosts(const HeaderList& fields) {
  const std::string_view authority = fields.Find(":authority");
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& [name, value] = fields[i];
    if (name != "host" || authority.empty() || value == authority) continue;
    const auto first = ParseHttpHost(authority);
    const auto second = ParseHttpHost(value);
    if (!first.has_value() || !second.has_value()) return true;
    const std::string_view scheme = fields.Find(":scheme");
    const uint16_t own_port = scheme == "https" ? 443 : 80;
    if (first->name != second->name ||
        first->port.value_or(own_port) != second->port.value_or(own_port)) {
      return true;
    }
  }
  return false;
}

bool IsAtPath(std::string_view asked, std::string_view path, bool covers_subpaths) {
  if (!asked.starts_with(path)) return false;
  return asked.size() == path.size() || (covers_subpaths && asked[path.size()] == '/');
}

}  // namespace lockstep::router
