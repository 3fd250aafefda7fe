#include "common/runtime/shutdown_signal.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>

#include "common/check.h"

namespace lockstep {
namespace {

// A signal handler can only use globals. -1: no object exists.
std::atomic<int> g_event_fd = -1;
std::atomic<bool> g_received = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "only lock-free atomics may be used in a signal handler");

void HandleSignal(int) {
  if (g_received.exchange(true)) _exit(0);
  const int saved_errno = errno;
  const uint64_t one = 1;
  // An eventfd always accepts this write, and a signal handler could not report a failure.
  [[maybe_unused]] const ssize_t written = write(g_event_fd.load(), &one, sizeof(one));
  errno = saved_errno;
}

}  // namespace

ShutdownSignal::ShutdownSignal() : event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(event_fd_ >= 0, "eventfd failed with errno {}", errno);
  const int other = g_event_fd.exchange(event_fd_);
  LOCKSTEP_CHECK(other < 0, "a second ShutdownSignal was made");
  g_received = false;
  struct sigaction action = {};
  action.sa_handler = HandleSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  const bool installed = sigaction(SIGTERM, &action, &previous_sigterm_) == 0 &&
                         sigaction(SIGINT, &action, &previous_sigint_) == 0;
  LOCKSTEP_CHECK(installed, "sigaction failed with errno {}", errno);
}

ShutdownSignal::~ShutdownSignal() {
  sigaction(SIGTERM, &previous_sigterm_, nullptr);
  sigaction(SIGINT, &previous_sigint_, nullptr);
  g_event_fd = -1;
  close(event_fd_);
}

void ShutdownSignal::Wait() const { WaitFor(absl::InfiniteDuration()); }

bool ShutdownSignal::WaitFor(absl::Duration timeout) const {
  constexpr int64_t kMaxPollMs = std::numeric_limits<int>::max();
  const absl::Duration wait = std::max(timeout, absl::ZeroDuration());
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    const absl::Duration left = wait - absl::FromChrono(std::chrono::steady_clock::now() - start);
    const int64_t left_ms = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    const bool forever = wait == absl::InfiniteDuration();
    pollfd waiting = {event_fd_, POLLIN, 0};
    const int timeout_ms =
        forever ? -1 : static_cast<int>(std::clamp<int64_t>(left_ms, 0, kMaxPollMs));
    const int num_ready = poll(&waiting, 1, timeout_ms);
    if (num_ready > 0) return true;
    LOCKSTEP_CHECK(num_ready == 0 || errno == EINTR, "poll failed with errno {}", errno);
    if (num_ready == 0 && left_ms <= kMaxPollMs && !forever) return false;
  }
}

void IgnoreBrokenPipes() {
  struct sigaction action = {};
  action.sa_handler = SIG_IGN;
  sigemptyset(&action.sa_mask);
  LOCKSTEP_CHECK(sigaction(SIGPIPE, &action, nullptr) == 0, "sigaction failed with errno {}",
                 errno);
}

}  // namespace lockstep
