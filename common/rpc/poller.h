#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/any_invocable.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/runtime/mutex.h"

namespace lockstep {

// The sockets that one thread polls (epoll), and tasks that other threads give to this thread.
// Sockets may be added and changed from any thread. Each thread polls its own sockets, so no thread
// handles events for another.
class Poller {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Task = absl::AnyInvocable<void()>;
  // The shortest time between two calls of OnTick. Long work delays the next call.
  static constexpr std::chrono::seconds kTick{1};

  // Called on the polling thread, one call at a time.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    // `events`: as epoll reports them.
    virtual void OnReady(uint32_t events) = 0;
    virtual void OnTick(Time /*now*/) {}
  };

  Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  ~Poller();

  // --- any thread ---
  // Watches the descriptor until Remove, and keeps the watcher alive. `events` are epoll's,
  // level-triggered. Returns the key for the methods below.
  uint64_t Add(int descriptor, uint32_t events, std::shared_ptr<Watcher> watcher);
  void Change(uint64_t key, int descriptor, uint32_t events);
  void Remove(uint64_t key, int descriptor);
  // The polling thread runs the task soon.
  void Post(Task task);
  // Makes the current Poll return, or else the next one.
  void Wake();

  // --- the polling thread ---
  // Waits for events, at most until `until`, rounded up to a millisecond. Handles the events of one
  // epoll_wait. Returns the number of sockets and tasks handled.
  size_t Poll(Time until);

 private:
  void Control(int operation, int descriptor, uint32_t events, uint64_t key) const;
  size_t RunTasks();
  void Tick(Time now);
  std::shared_ptr<Watcher> Find(uint64_t key);

  int epoll_ = -1;
  int wake_event_ = -1;
  Time next_tick_;
  Mutex mutex_;
  uint64_t next_key_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // the event is set
};

}  // namespace lockstep
