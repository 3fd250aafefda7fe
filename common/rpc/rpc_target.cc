#include "common/rpc/rpc_target.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "common/net/address.h"
#include "common/net/unix_socket.h"
#include "common/status.h"

namespace lockstep {
namespace {

using Addresses = std::vector<SocketAddress>;

absl::StatusOr<Addresses> UnixTarget(const std::string& address) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string path, ParseUnixAddress(address));
  SocketAddress found;
  auto& name = reinterpret_cast<sockaddr_un&>(found.storage);
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  found.num_bytes = sizeof(sockaddr_un);
  return Addresses{found};
}

// `flags`: of getaddrinfo.
absl::StatusOr<Addresses> LookUpTcp(const Address& address, int flags) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* first = nullptr;
  const std::string port = fmt::format("{}", address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &first);
  if (error != 0) {
    return Unavailable("the name {} is not known: {}", address.host, gai_strerror(error));
  }
  Addresses found;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    SocketAddress& added = found.emplace_back();
    std::memcpy(&added.storage, entry->ai_addr, entry->ai_addrlen);
    added.num_bytes = entry->ai_addrlen;
  }
  freeaddrinfo(first);
  return found;
}

}  // namespace

std::shared_ptr<NameLookup> NameLookup::Start(const std::string& address,
                                              std::function<void()> on_done) {
  auto lookup = std::make_shared<NameLookup>();
  const absl::StatusOr<Address> tcp = ParseAddress(address);
  absl::StatusOr<Addresses> at_once = IsUnixAddress(address) ? UnixTarget(address)
                                      : tcp.ok()             ? LookUpTcp(*tcp, AI_NUMERICHOST)
                                                 : absl::StatusOr<Addresses>(tcp.status());
  if (at_once.ok() || IsUnixAddress(address) || !tcp.ok()) {
    lookup->Finish(std::move(at_once));
    on_done();
    return lookup;
  }
  try {
    std::thread([lookup, name = *tcp, on_done] {
      pthread_setname_np(pthread_self(), "lookup");
      lookup->Finish(LookUpTcp(name, 0));
      on_done();
    }).detach();
  } catch (const std::system_error& error) {
    lookup->Finish(Unavailable("no thread for a name lookup: {}", error.what()));
    on_done();
  }
  return lookup;
}

bool NameLookup::done() const {
  MutexLock lock(mutex_);
  return done_;
}

absl::StatusOr<std::vector<SocketAddress>> NameLookup::result() const {
  MutexLock lock(mutex_);
  return result_;
}

void NameLookup::Finish(absl::StatusOr<std::vector<SocketAddress>> result) {
  MutexLock lock(mutex_);
  result_ = std::move(result);
  done_ = true;
}

absl::StatusOr<int> BeginConnecting(const SocketAddress& address) {
  const int made = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return Unavailable("no socket: {}", std::strerror(errno));
  const int on = 1;
  if (address.storage.ss_family != AF_UNIX) {
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  if (connect(made, reinterpret_cast<const sockaddr*>(&address.storage), address.num_bytes) == 0 ||
      errno == EINPROGRESS) {
    return made;
  }
  absl::Status status = Unavailable("{}", std::strerror(errno));
  close(made);
  return status;
}

}  // namespace lockstep
