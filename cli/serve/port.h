#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "common/net/address.h"

namespace lockstep::cli {

// Keeps a port for the router while the router does not run. The port is bound, but this socket
// does not listen. So the router can listen there, and no other program gets the port by chance.
class ReservedPort {
 public:
  // Port 0 takes a free one. ALREADY_EXISTS if the port is taken; INVALID_ARGUMENT if the host is
  // not an address of this machine; PERMISSION_DENIED if the user may not have the port.
  static absl::StatusOr<ReservedPort> Reserve(const Address& address);

  ReservedPort(ReservedPort&& other) noexcept;
  ReservedPort& operator=(ReservedPort&&) = delete;
  ~ReservedPort();

  uint16_t port() const { return port_; }

 private:
  ReservedPort(int socket, uint16_t port) : socket_(socket), port_(port) {}

  int socket_;
  uint16_t port_;
};

// The first free port above `address.port`; 0 if the next hundred are taken.
uint16_t NextFreePort(Address address);

}  // namespace lockstep::cli
