#include "tests/rigs/soak/attacks/raw_connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "common/net/address.h"

namespace lockstep::bench {

RawConnection::RawConnection(const std::string& address) {
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  if (!parsed.ok() || ::inet_pton(AF_INET, parsed->host.c_str(), &to.sin_addr) != 1) return;
  to.sin_port = htons(parsed->port);
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0) {
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
  } else {
    Close();
  }
}

RawConnection::RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RawConnection& RawConnection::operator=(RawConnection&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void RawConnection::Close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

bool RawConnection::Await(short events, std::chrono::milliseconds patience) const {
  pollfd ready{.fd = fd_, .events = events, .revents = 0};
  return ::poll(&ready, 1, static_cast<int>(patience.count())) > 0;
}

size_t RawConnection::Send(std::string_view bytes, std::chrono::milliseconds patience) {
  size_t num_sent = 0;
  while (open() && num_sent < bytes.size()) {
    const ssize_t count =
        ::send(fd_, bytes.data() + num_sent, bytes.size() - num_sent, MSG_NOSIGNAL);
    if (count > 0) {
      num_sent += static_cast<size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      Close();
    } else if (!Await(POLLOUT, patience)) {
      break;
    }
  }
  return num_sent;
}

std::string RawConnection::Read(size_t max_bytes, std::chrono::milliseconds patience) {
  if (!open() || !Await(POLLIN, patience)) return {};
  std::string bytes(max_bytes, '\0');
  const ssize_t count = ::recv(fd_, bytes.data(), bytes.size(), 0);
  if (count <= 0) {
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) Close();
    return {};
  }
  bytes.resize(static_cast<size_t>(count));
  return bytes;
}

}  // namespace lockstep::bench
