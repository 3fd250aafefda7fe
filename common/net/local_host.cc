#include "common/net/local_host.h"

#include <absl/strings/ascii.h>
#include <arpa/inet.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

bool IsNumberOf(int family, const std::string& host) {
  in6_addr address = {};
  return inet_pton(family, host.c_str(), &address) == 1;
}

// "8000", at most five digits.
bool IsPort(std::string_view text) {
  return !text.empty() && text.size() <= 5 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool NamesThisMachine(std::string_view authority) {
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return false;
  const size_t host_end = std::min(authority.find(':', bracket), authority.size());
  if (host_end < authority.size() && !IsPort(authority.substr(host_end + 1))) return false;
  std::string host(authority.substr(0, host_end));
  if (bracket > 0) {
    return host_end == bracket + 1 && IsNumberOf(AF_INET6, host.substr(1, bracket - 1));
  }
  absl::AsciiStrToLower(&host);
  constexpr std::string_view kLocal = ".localhost";
  return host == "localhost" || host == "host.docker.internal" || IsNumberOf(AF_INET, host) ||
         (host.size() > kLocal.size() && host.ends_with(kLocal) &&
          std::ranges::all_of(host, [](char c) {
            return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
          }));
}

}  // namespace lockstep
