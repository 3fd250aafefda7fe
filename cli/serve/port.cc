#include "cli/serve/port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/status.h"

namespace lockstep::cli {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<Addresses> Resolve(const Address& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (error != 0) return InvalidArgument("{}: {}", address.host, gai_strerror(error));
  return Addresses(found, &freeaddrinfo);
}

// A bound socket, or -1 with errno.
int BindSocket(const addrinfo& address) {
  const int descriptor =
      socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  const int on = 1;
  if (descriptor < 0 || (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                         bind(descriptor, address.ai_addr, address.ai_addrlen) == 0)) {
    return descriptor;
  }
  const int saved_errno = errno;
  close(descriptor);
  errno = saved_errno;
  return -1;
}

uint16_t BoundPort(int descriptor) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

absl::Status BindError(const Address& address) {
  const int error = errno;
  if (error == EADDRINUSE) {
    return MakeError(absl::StatusCode::kAlreadyExists, "port {} is taken", address.port);
  }
  if (error == EACCES) {
    return MakeError(absl::StatusCode::kPermissionDenied, "{}: {}", FormatAddress(address),
                     std::strerror(error));
  }
  return InvalidArgument("{}: {}", FormatAddress(address), std::strerror(error));
}

}  // namespace

absl::StatusOr<ReservedPort> ReservedPort::Reserve(const Address& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(address));
  const int descriptor = BindSocket(*addresses);
  if (descriptor < 0) return BindError(address);
  ReservedPort reserved(descriptor, BoundPort(descriptor));
  // A bind succeeds beside another socket that is only bound, so also try to listen. A socket that
  // has listened cannot go back to being only bound, so a second socket does this.
  Address probed = address;
  probed.port = reserved.port();
  LOCKSTEP_ASSIGN_OR_RETURN(const Addresses again, Resolve(probed));
  const int probe = BindSocket(*again);
  if (probe < 0) return BindError(address);
  const bool listens = listen(probe, 1) == 0;
  const absl::Status error = listens ? absl::OkStatus() : BindError(address);
  close(probe);
  LOCKSTEP_RETURN_IF_ERROR(error);
  return reserved;
}

ReservedPort::ReservedPort(ReservedPort&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), port_(other.port_) {}

ReservedPort::~ReservedPort() {
  if (socket_ >= 0) close(socket_);
}

uint16_t NextFreePort(Address address) {
  constexpr int kNumPorts = 100;
  const int last = std::min(address.port + kNumPorts, 65535);
  for (int port = address.port + 1; port <= last; ++port) {
    address.port = static_cast<uint16_t>(port);
    if (ReservedPort::Reserve(address).ok()) return address.port;
  }
  return 0;
}

}  // namespace lockstep::cli
