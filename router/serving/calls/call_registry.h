#pragma once

#include <absl/container/flat_hash_map.h>

#include <memory>
#include <string>
#include <utility>

#include "common/runtime/mutex.h"

namespace lockstep::router {

// A Generate call, as seen by other calls.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  // May be called from any thread. Never blocks.
  virtual void Abort() = 0;
};

// The open calls by request id. Safe to use from any thread.
class CallRegistry {
 public:
  // Returns false if the id is in use.
  bool Add(const std::string& id, std::weak_ptr<OpenCall> call) {
    MutexLock lock(mutex_);
    return by_id_.emplace(id, std::move(call)).second;
  }
  void Remove(const std::string& id) {
    MutexLock lock(mutex_);
    by_id_.erase(id);
  }
  // Null if no call with this id is open.
  std::shared_ptr<OpenCall> Find(const std::string& id) const {
    MutexLock lock(mutex_);
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<OpenCall>> by_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
