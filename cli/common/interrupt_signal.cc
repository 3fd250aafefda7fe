#include "cli/common/interrupt_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "common/check.h"

namespace lockstep::cli {
namespace {

// A signal handler can use globals only. -1: no object exists.
std::atomic<int> g_interrupt_fd = -1;

void OnInterrupt(int) {
  const int saved_errno = errno;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(g_interrupt_fd.load(), &one, sizeof(one));
  errno = saved_errno;
}

}  // namespace

InterruptSignal::InterruptSignal() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(event_fd_ >= 0, "eventfd failed with errno {}", errno);
  LOCKSTEP_CHECK(g_interrupt_fd.exchange(event_fd_) < 0, "a second InterruptSignal was made");
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  LOCKSTEP_CHECK(sigaction(SIGINT, &action, &previous_) == 0, "sigaction failed with errno {}",
                 errno);
}

InterruptSignal::~InterruptSignal() {
  sigaction(SIGINT, &previous_, nullptr);
  g_interrupt_fd = -1;
  close(event_fd_);
}

bool InterruptSignal::Take() {
  uint64_t count = 0;
  return read(event_fd_, &count, sizeof(count)) == static_cast<ssize_t>(sizeof(count));
}

}  // namespace lockstep::cli
