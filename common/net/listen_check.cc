#include "common/net/listen_check.h"

#include <boost/asio/io_context.hpp>

#include "common/net/address.h"
#include "common/net/tcp_listener.h"
#include "common/net/unix_socket.h"
#include "common/status.h"

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
