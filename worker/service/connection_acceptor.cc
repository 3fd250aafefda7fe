#include "worker/service/connection_acceptor.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/net/address.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

constexpr int kRetryMilliseconds = 100;

ino_t InodeOf(int descriptor) {
  struct stat found = {};
  return fstat(descriptor, &found) == 0 ? found.st_ino : 0;
}

uint16_t PortOf(int socket) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  const bool is_v6 = bound.ss_family == AF_INET6;
  return ntohs(is_v6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
}

// Returns -1 and sets errno on failure.
int ListenOn(const addrinfo& endpoint) {
  const int opened =
      socket(endpoint.ai_family, endpoint.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (opened < 0) return -1;
  const int on = 1;
  // Accepted sockets inherit TCP_NODELAY.
  const bool listens = setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                       setsockopt(opened, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
                       bind(opened, endpoint.ai_addr, endpoint.ai_addrlen) == 0 &&
                       listen(opened, SOMAXCONN) == 0;
  if (listens) return opened;
  const int error = errno;
  close(opened);
  errno = error;
  return -1;
}

void SetPort(uint16_t port, addrinfo& endpoint) {
  if (endpoint.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(endpoint.ai_addr)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(endpoint.ai_addr)->sin_port = htons(port);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const std::string& address, uint32_t max_connections) {
  std::unique_ptr<ConnectionAcceptor> acceptor(new ConnectionAcceptor(max_connections));
  acceptor->stop_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (acceptor->stop_event_ < 0) return Unavailable("no descriptor: {}", std::strerror(errno));
  if (!IsUnixAddress(address)) {
    LOCKSTEP_RETURN_IF_ERROR(acceptor->ListenOnTcp(address));
    return acceptor;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, ParseUnixAddress(address));
  LOCKSTEP_ASSIGN_OR_RETURN(acceptor->unix_listener_, UnixListener::Listen(path));
  acceptor->listeners_.push_back(acceptor->unix_listener_->descriptor());
  return acceptor;
}

// Listens on every address of the host that can be bound: localhost has two.
absl::Status ConnectionAcceptor::ListenOnTcp(const std::string& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(parsed.host.c_str(), fmt::format("{}", parsed.port).c_str(), &hints, &found);
  if (error != 0) return Unavailable("cannot listen on {}: {}", address, gai_strerror(error));
  std::string problem;
  for (addrinfo* endpoint = found; endpoint != nullptr; endpoint = endpoint->ai_next) {
    if (port_ != 0) SetPort(port_, *endpoint);
    const int listener = ListenOn(*endpoint);
    if (listener < 0) {
      problem = std::strerror(errno);
      continue;
    }
    listeners_.push_back(listener);
    port_ = PortOf(listener);
  }
  freeaddrinfo(found);
  if (listeners_.empty()) return Unavailable("cannot listen on {}: {}", address, problem);
  return absl::OkStatus();
}

ConnectionAcceptor::~ConnectionAcceptor() {
  Stop();
  if (unix_listener_ == nullptr) {
    for (const int listener : listeners_) close(listener);
  }
  if (stop_event_ >= 0) close(stop_event_);
}

void ConnectionAcceptor::Start(OnConnection on_connection) {
  on_connection_ = std::move(on_connection);
  thread_ = NamedThread("accept", [this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  const ssize_t written = write(stop_event_, &one, sizeof(one));
  LOCKSTEP_CHECK(written == sizeof(one), "an event's counter has room for one");
  thread_.join();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> watched = {{.fd = stop_event_, .events = POLLIN, .revents = 0}};
  for (const int listener : listeners_) {
    watched.push_back({.fd = listener, .events = POLLIN, .revents = 0});
  }
  for (bool exhausted = false;;) {
    // Without free descriptors the listeners stay readable. Wait for the stop alone, and retry
    // after a while.
    const int ready = exhausted ? poll(watched.data(), 1, kRetryMilliseconds)
                                : poll(watched.data(), watched.size(), -1);
    if (ready < 0 && errno != EINTR) LOCKSTEP_CHECK(false, "poll: {}", std::strerror(errno));
    if (ready > 0 && watched.front().revents != 0) return;
    exhausted = false;
    for (const int listener : listeners_) {
      if (!AcceptFrom(listener)) exhausted = true;
    }
  }
}

bool ConnectionAcceptor::AcceptFrom(int listener) {
  const int accepted = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (accepted < 0) {
    // Any other error belongs to one connection that has ended already.
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  if (!HasRoom()) {
    close(accepted);
    return true;
  }
  connections_.push_back({.descriptor = accepted, .inode = InodeOf(accepted)});
  on_connection_(accepted);
  return true;
}

bool ConnectionAcceptor::HasRoom() {
  if (connections_.size() >= max_connections_) {
    std::erase_if(connections_, [](const Connection& connection) {
      return InodeOf(connection.descriptor) != connection.inode;
    });
  }
  const bool full = connections_.size() >= max_connections_;
  if (full && !was_full_) {
    spdlog::warn("{} connections are open, others are closed at once", connections_.size());
  }
  was_full_ = full;
  return !full;
}

}  // namespace lockstep::worker
