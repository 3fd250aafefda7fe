#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/runtime/mutex.h"

namespace lockstep {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t num_bytes = 0;
};

// The lookup of a name on a thread of its own ("lookup"). The thread ends by itself, because the
// system's resolver may take long and cannot be interrupted. Numbers and unix:PATH need no thread.
class NameLookup {
 public:
  // `address`: host:port or unix:PATH. `on_done` is called once, on any thread, when result() is
  // ready.
  static std::shared_ptr<NameLookup> Start(const std::string& address,
                                           std::function<void()> on_done);

  bool done() const;
  // Call when done. Errors name the address.
  absl::StatusOr<std::vector<SocketAddress>> result() const;

 private:
  void Finish(absl::StatusOr<std::vector<SocketAddress>> result);

  mutable Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<std::vector<SocketAddress>> result_ ABSL_GUARDED_BY(mutex_);
};

// Returns a non-blocking socket that is connecting or connected. If connecting fails, the first use
// shows the error. UNAVAILABLE if there is no socket.
absl::StatusOr<int> BeginConnecting(const SocketAddress& address);

}  // namespace lockstep
