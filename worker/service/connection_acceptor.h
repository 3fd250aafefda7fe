#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/net/unix_socket.h"
#include "common/runtime/named_thread.h"

namespace lockstep::worker {

// The listening sockets of a worker and the thread ("accept") that accepts connections. If
// descriptors run out, it continues when there are free ones again. Passes every connection to its
// owner, and the owner closes it. Closes connections above the limit at once. Knows nothing of the
// protocol.
class ConnectionAcceptor {
 public:
  // Takes the descriptor of a connection. Called on the acceptor's thread.
  using OnConnection = std::function<void(int descriptor)>;

  // Listens at host:port, or at unix:PATH. Connections wait until Start.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const std::string& address,
                                                                    uint32_t max_connections);
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;
  ~ConnectionAcceptor();  // stops

  uint16_t port() const { return port_; }  // the bound port; 0 for a unix socket

  void Start(OnConnection on_connection);
  // After this returns, no more connections are passed on.
  void Stop();

 private:
  // The inode distinguishes a socket from a later one with the same descriptor.
  struct Connection {
    int descriptor;
    ino_t inode;
  };

  explicit ConnectionAcceptor(uint32_t max_connections) : max_connections_(max_connections) {}

  absl::Status ListenOnTcp(const std::string& address);
  void Run();
  // False if descriptors or memory have run out.
  bool AcceptFrom(int listener);
  // True if one more connection may be open. At the limit, first forgets connections that have
  // ended.
  bool HasRoom();

  const uint32_t max_connections_;
  uint16_t port_ = 0;
  std::vector<int> listeners_;
  std::unique_ptr<UnixListener> unix_listener_;  // owns its descriptor in listeners_
  int stop_event_ = -1;
  OnConnection on_connection_;
  std::vector<Connection> connections_;  // accept thread only; some may have ended
  bool was_full_ = false;                // accept thread only
  NamedThread thread_;
};

}  // namespace lockstep::worker
