#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace lockstep::testing {

// A TCP connection to a port of this machine that says nothing by itself.
class LoopbackClient {
 public:
  LoopbackClient() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  explicit LoopbackClient(uint16_t port) : LoopbackClient() { Connect(port); }
  LoopbackClient(LoopbackClient&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  LoopbackClient& operator=(LoopbackClient&&) = delete;
  ~LoopbackClient() {
    if (socket_ >= 0) close(socket_);
  }

  bool Connect(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  // Something was received, or the other side has closed.
  bool Readable(int timeout_ms) {
    pollfd watched = {.fd = socket_, .events = POLLIN, .revents = 0};
    return poll(&watched, 1, timeout_ms) == 1;
  }
  // Bytes that came; 0: the other side has closed.
  ptrdiff_t Receive() {
    char bytes[256];
    const ptrdiff_t count = recv(socket_, bytes, sizeof(bytes), 0);
    return count < 0 ? 0 : count;
  }

 private:
  int socket_;
};

}  // namespace lockstep::testing
