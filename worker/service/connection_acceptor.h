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

// The listening sockets of a worker, and the thread ("accept") that takes their connections. gRPC's
// own listener has no bound on connections, never accepts again once descriptors have run out, and
// takes a living unix socket over; this one does none of that. Hands every connection to its owner,
// who closes it; one above the bound is closed at once. Knows nothing of what is spoken.
class ConnectionAcceptor {
 public:
  // Takes the descriptor of a connection; on the acceptor's thread.
  using OnConnection = std::function<void(int descriptor)>;

  // Listens at host:port, or at unix:PATH. Connections wait until Start.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const std::string& address,
                                                                    uint32_t max_connections);
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;
  ~ConnectionAcceptor();  // stops

  uint16_t port() const { return port_; }  // as bound; 0 for a unix socket

  void Start(OnConnection on_connection);
  // Returns when no connection is handed over any more.
  void Stop();

 private:
  // A socket is told from a later one with the same descriptor by its inode.
  struct Connection {
    int descriptor;
    ino_t inode;
  };

  explicit ConnectionAcceptor(uint32_t max_connections) : max_connections_(max_connections) {}

  absl::Status ListenOnTcp(const std::string& address);
  void Run();
  // False: the descriptors have run out, or something like it.
  bool AcceptFrom(int listener);
  // Makes room among those that are open, if some have ended.
  bool HasRoom();

  const uint32_t max_connections_;
  uint16_t port_ = 0;
  std::vector<int> listeners_;
  std::unique_ptr<UnixListener> unix_listener_;  // owns its descriptor in listeners_
  int stop_event_ = -1;
  OnConnection on_connection_;
  std::vector<Connection> connections_;  // the thread's; some may have ended
  bool was_full_ = false;                // the thread's
  NamedThread thread_;
};

}  // namespace lockstep::worker
