#include "common/net/local_host.h"

#include <absl/strings/ascii.h>
#include <arpa/inet.h>

#include <algorithm>
#include <optional>
#include <string>

#include "common/net/http_host.h"

namespace lockstep {
namespace {

bool IsV4(const std::string& name) {
  in_addr address = {};
  return inet_pton(AF_INET, name.c_str(), &address) == 1;
}

bool IsPlain(std::string_view name) {
  return std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  });
}

}  // namespace

bool NamesThisMachine(std::string_view authority) {
  const std::optional<HttpHost> host = ParseHttpHost(authority);
  if (!host.has_value() || authority.ends_with(':')) return false;
  if (host->is_v6 || IsV4(host->name)) return true;
  return IsPlain(host->name) && IsLocalName(host->name);
}

}  // namespace lockstep
