#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <string>

#include "common/mutex.h"

namespace lockstep::router {

// A call that Abort can end from outside.
class AbortableCall {
 public:
  virtual ~AbortableCall() = default;
  // Never blocks; from any thread.
  virtual void Abort() = 0;
};

// Which request ids are in use. Safe to use from any thread.
class CallRegistry {
 public:
  // False when the id is in use.
  bool Add(const std::string& id, std::weak_ptr<AbortableCall> call) {
    MutexLock lock(mutex_);
    return calls_.emplace(id, std::move(call)).second;
  }
  void Remove(const std::string& id) {
    MutexLock lock(mutex_);
    calls_.erase(id);
  }
  // Null when nothing of that id is running.
  std::shared_ptr<AbortableCall> Find(const std::string& id) const {
    MutexLock lock(mutex_);
    const auto found = calls_.find(id);
    return found == calls_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<AbortableCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
