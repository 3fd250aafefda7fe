#pragma once

#include "common/runtime/mutex.h"
#include "router/front/connection/output_signal.h"

namespace lockstep::testing {

// Counts what a call or an exchange tells its connection.
class CountingSignal final : public router::OutputSignal {
 public:
  void OnOutput() override {
    MutexLock lock(mutex_);
    ++count_;
    changed_.NotifyAll();
  }
  void Await(int count = 1) {
    MutexLock lock(mutex_);
    while (count_ < count) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::testing
