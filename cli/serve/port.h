#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "common/net/address.h"

namespace lockstep::cli {

// A port that is kept for the router while it is not there: bound, but not listening, so that
// another socket may listen there and no other program is given the port by chance.
class ReservedPort {
 public:
  // Port 0 takes a free one. ALREADY_EXISTS if somebody listens there; INVALID_ARGUMENT for a host
  // that is not one of this machine.
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
