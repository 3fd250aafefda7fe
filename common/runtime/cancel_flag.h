#pragma once

#include <atomic>

namespace lockstep {

// Tells long work that its result is not needed any more. The work checks the flag from time to
// time and gives up. Cannot be reset. Safe to use from any thread.
class CancelFlag {
 public:
  // `parent`: cancels this object too. Null: none. It must outlive the object.
  explicit CancelFlag(const CancelFlag* parent = nullptr) : parent_(parent) {}
  CancelFlag(const CancelFlag&) = delete;
  CancelFlag& operator=(const CancelFlag&) = delete;

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) ||
           (parent_ != nullptr && parent_->cancelled());
  }

 private:
  const CancelFlag* const parent_;
  std::atomic<bool> cancelled_ = false;
};

// For work that may run without one: null is never cancelled.
inline bool IsCancelled(const CancelFlag* cancellation) {
  return cancellation != nullptr && cancellation->cancelled();
}

}  // namespace lockstep
