#include "router/workers/link/grpc_loop.h"

#include <fmt/format.h>

#include <utility>

#include "common/check.h"

namespace lockstep::router {
namespace {

constexpr size_t kStrandsAtATime = 16;
constexpr size_t kMaxEventsInARow = 64;
// So few strands are done before an event could come. To look for events costs more.
constexpr size_t kFewStrands = 2;
constexpr size_t kMaxRunsInARow = 4;

thread_local const GrpcLoop* this_threads_loop = nullptr;

}  // namespace

GrpcLoop::GrpcLoop(uint32_t index) : thread_(fmt::format("grpc-{}", index), [this] { Run(); }) {}

void GrpcLoop::Stop() {
  poller_.Post([this] { stopping_ = true; });
  thread_.join();
}

void GrpcLoop::Push(std::shared_ptr<Strand> strand) {
  {
    MutexLock lock(mutex_);
    if (closed_ || !strands_.Push(std::move(strand))) return;
  }
  if (this_threads_loop == this) {
    has_strands_ = true;
    return;
  }
  poller_.Post([this] { has_strands_ = true; });
}

void GrpcLoop::ScheduleAt(std::shared_ptr<Strand> strand,
                          std::chrono::steady_clock::time_point at) {
  LOCKSTEP_CHECK(this_threads_loop == this, "a strand asks for a time on another thread");
  timers_.Set(std::move(strand), at);
}

// A few strands run, then timers that are due, then the sockets are looked at. So a worker's result
// never waits for more than a few strands. But a long row of events also ends, so that strands run.
void GrpcLoop::Run() {
  this_threads_loop = this;
  while (!stopping_ || num_users_ > 0 || !Close()) {
    if (!RunsNext()) {
      num_runs_in_a_row_ = 0;
      // Does not wait while strands wait. Otherwise waits until a timer is due.
      const size_t num_events = poller_.Poll(has_strands_ ? Poller::Time::min() : timers_.next());
      num_events_in_a_row_ += num_events;
      if (num_events > 0) continue;
    }
    num_events_in_a_row_ = 0;
    ScheduleDue();
    if (has_strands_) RunStrands();
  }
}

// True if strands or timers run before the next look at the sockets: if they have waited for many
// events, if the strands are few, or if one is urgent.
bool GrpcLoop::RunsNext() {
  if (num_events_in_a_row_ >= kMaxEventsInARow) return true;
  if (!has_strands_ || num_runs_in_a_row_ == kMaxRunsInARow) return false;
  MutexLock lock(mutex_);
  return strands_.size() <= kFewStrands || strands_.any_urgent();
}

void GrpcLoop::ScheduleDue() {
  for (auto& strand : timers_.TakeDue(std::chrono::steady_clock::now())) {
    Schedule(std::move(strand));
  }
}

void GrpcLoop::RunStrands() {
  ++num_runs_in_a_row_;
  std::vector<std::shared_ptr<Strand>> strands;
  {
    MutexLock lock(mutex_);
    strands = strands_.Take(kStrandsAtATime);
  }
  for (std::shared_ptr<Strand>& strand : strands) StrandRunner::Run(std::move(strand));
  MutexLock lock(mutex_);
  has_strands_ = !strands_.Leave();
}

bool GrpcLoop::Close() {
  MutexLock lock(mutex_);
  const bool closes = !closed_ && strands_.idle();
  closed_ |= closes;
  return closes;
}

GrpcLoops::GrpcLoops(uint32_t num_threads) {
  for (uint32_t i = 0; i < num_threads; ++i) {
    loops_.push_back(std::make_shared<GrpcLoop>(i));
  }
}

void GrpcLoops::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& loop : loops_) loop->Stop();
}

}  // namespace lockstep::router
