#include "common/listen_check.h"

#include <boost/asio/io_context.hpp>

#include "common/address.h"
#include "common/status.h"
#include "common/tcp_listener.h"
#include "common/unix_socket.h"

namespace lockstep {

absl::Status CheckCanListen(const std::string& address) {
  if (IsUnixAddress(address)) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, ParseUnixAddress(address));
    return UnixListener::Listen(path).status();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  boost::asio::io_context io;
  return TcpListener(io, nullptr).Listen(parsed).status();
}

}  // namespace lockstep
