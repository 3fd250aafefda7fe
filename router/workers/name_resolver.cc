#include "router/workers/name_resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include "common/status.h"

namespace lockstep::router {
namespace {

std::vector<std::string> AddressesOf(const addrinfo* list, int family) {
  std::vector<std::string> addresses;
  for (; list != nullptr; list = list->ai_next) {
    if (list->ai_family != family) continue;
    std::array<char, NI_MAXHOST> text;
    // Includes the scope of a link-local address.
    if (getnameinfo(list->ai_addr, list->ai_addrlen, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SystemResolver::Resolve(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return Unavailable("{}: {}", host,
                       error == EAI_SYSTEM ? std::generic_category().message(errno)
                                           : std::string(gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  std::vector<std::string> addresses = AddressesOf(list.get(), AF_INET);
  if (addresses.empty()) addresses = AddressesOf(list.get(), AF_INET6);
  if (addresses.empty()) return Unavailable("{}: no address of IPv4 or IPv6", host);
  return addresses;
}

}  // namespace lockstep::router
