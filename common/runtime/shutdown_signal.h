#pragma once

#include <absl/time/time.h>

#include <csignal>

namespace lockstep {

// Turns SIGTERM and SIGINT into something to wait for. The first signal asks for a drain; the
// second ends the process at once with exit code 0. At most one object exists at a time, made in
// main before other threads start; its destructor restores the former handlers. All methods are
// safe to call from any thread.
class ShutdownSignal {
 public:
  ShutdownSignal();
  ShutdownSignal(const ShutdownSignal&) = delete;
  ShutdownSignal& operator=(const ShutdownSignal&) = delete;
  ~ShutdownSignal();

  // Returns once a signal has come.
  void Wait() const;
  // False when the time ran out first.
  bool WaitFor(absl::Duration timeout) const;
  bool received() const { return WaitFor(absl::ZeroDuration()); }

  // Readable from the first signal on; for poll and epoll only, never to be read.
  int fd() const { return event_fd_; }

 private:
  int event_fd_ = -1;
  struct sigaction previous_sigterm_;
  struct sigaction previous_sigint_;
};

// From now on, writing to a pipe or socket without a reader is an error and does not end the
// process. So the reader of its log may go away. Call this first in main, before anything is
// logged.
void IgnoreBrokenPipes();

}  // namespace lockstep
