#pragma once

#include <cstdint>

#include "common/runtime/named_thread.h"
#include "tests/rigs/child_process.h"

namespace lockstep::bench {

// The most memory that a process had resident since the object was made: what the kernel says
// (VmHWM, which the object resets) or, where it cannot be asked, the most of looks every few
// milliseconds.
class ResidentPeak {
 public:
  explicit ResidentPeak(const testing::ChildProcess& process);

  // So far. One thread at a time.
  uint64_t StopAndTellKib();

 private:
  const testing::ChildProcess& process_;
  const bool is_reset_;
  uint64_t peak_kib_ = 0;  // the thread's until it has ended
  NamedThread thread_;
};

}  // namespace lockstep::bench
