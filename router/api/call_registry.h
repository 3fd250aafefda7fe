#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "common/mutex.h"

namespace lockstep::router {

// A Generate call as others see it. Both methods may be called from any thread and never block.
class OpenCall {
 public:
  virtual ~OpenCall() = default;
  virtual void Abort() = 0;
  // Ends the call if its client has left a message untaken since `limit` or longer.
  virtual void EndIfStalledSince(absl::Time limit) = 0;
};

// The calls that are open, and which request ids are in use. Safe to use from any thread.
class CallRegistry {
 public:
  void Open(const std::shared_ptr<OpenCall>& call) {
    MutexLock lock(mutex_);
    open_.emplace(call.get(), call);
  }
  void Close(const OpenCall* call) {
    MutexLock lock(mutex_);
    open_.erase(call);
  }
  std::vector<std::shared_ptr<OpenCall>> open_calls() const {
    MutexLock lock(mutex_);
    std::vector<std::shared_ptr<OpenCall>> calls;
    calls.reserve(open_.size());
    for (const auto& [pointer, weak] : open_) {
      if (std::shared_ptr<OpenCall> call = weak.lock()) calls.push_back(std::move(call));
    }
    return calls;
  }

  // False when the id is in use.
  bool Add(const std::string& id, std::weak_ptr<OpenCall> call) {
    MutexLock lock(mutex_);
    return by_id_.emplace(id, std::move(call)).second;
  }
  void Remove(const std::string& id) {
    MutexLock lock(mutex_);
    by_id_.erase(id);
  }
  // Null when nothing of that id is running.
  std::shared_ptr<OpenCall> Find(const std::string& id) const {
    MutexLock lock(mutex_);
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<const OpenCall*, std::weak_ptr<OpenCall>> open_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, std::weak_ptr<OpenCall>> by_id_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
