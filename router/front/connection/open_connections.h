#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "common/runtime/mutex.h"
#include "common/runtime/wait_until.h"

namespace lockstep::router {

// A connection as its server sees it. Called from any thread; never blocks.
class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  // Accepts no new requests, and closes after the answers already begun.
  virtual void Finish() = 0;
  // The server will stop soon and answers until then. Tells the client, if the protocol can.
  virtual void Announce() {}
};

// The connections of a server. Safe to use from any thread.
class OpenConnections {
 public:
  void Add(const std::shared_ptr<OpenConnection>& connection) {
    MutexLock lock(mutex_);
    open_.emplace(connection.get(), connection);
  }
  void Remove(const OpenConnection* connection) {
    MutexLock lock(mutex_);
    open_.erase(connection);
    if (open_.empty()) empty_.NotifyAll();
  }
  size_t size() const {
    MutexLock lock(mutex_);
    return open_.size();
  }
  void Announce() {
    for (const auto& connection : All()) connection->Announce();
  }
  // Asks all connections to finish and waits until they have closed, for at most `grace`.
  void Finish(absl::Duration grace) {
    for (const auto& connection : All()) connection->Finish();
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(grace);
    MutexLock lock(mutex_);
    while (!open_.empty() && WaitUntil(mutex_, empty_, until)) {
    }
  }

 private:
  std::vector<std::shared_ptr<OpenConnection>> All() const {
    std::vector<std::shared_ptr<OpenConnection>> connections;
    MutexLock lock(mutex_);
    for (const auto& [pointer, weak] : open_) {
      if (auto connection = weak.lock()) connections.push_back(std::move(connection));
    }
    return connections;
  }

  mutable Mutex mutex_;
  CondVar empty_;
  absl::flat_hash_map<const OpenConnection*, std::weak_ptr<OpenConnection>> open_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
