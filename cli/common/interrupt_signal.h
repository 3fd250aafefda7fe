#pragma once

#include <csignal>

namespace lockstep::cli {

// Turns Ctrl-C (SIGINT) into something to poll for, as often as it comes. At most one object exists
// at a time. The destructor restores the former handler.
class InterruptSignal {
 public:
  InterruptSignal();
  InterruptSignal(const InterruptSignal&) = delete;
  InterruptSignal& operator=(const InterruptSignal&) = delete;
  ~InterruptSignal();

  int fd() const { return event_fd_; }  // readable after a signal; for poll only
  // Forgets the signals so far. True if there were any.
  bool Take();

 private:
  int event_fd_;
  struct sigaction previous_;
};

}  // namespace lockstep::cli
