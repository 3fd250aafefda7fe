#include "router/strands/strand.h"

#include <algorithm>
#include <utility>

namespace lockstep::router {
namespace {

thread_local StrandRunner::WakeLater* this_threads_wakes = nullptr;

}  // namespace

StrandRunner::WakeLater::WakeLater()
    : outermost_(this_threads_wakes == nullptr ? *this : *this_threads_wakes) {
  this_threads_wakes = &outermost_;
}

StrandRunner::WakeLater::~WakeLater() {
  if (&outermost_ != this) return;
  this_threads_wakes = nullptr;
  Wake();
}

void StrandRunner::WakeLater::Wake() {
  for (const auto& runner : std::exchange(outermost_.asleep_, {})) runner->WakeThread();
}

bool StrandRunner::PutOffWake(std::shared_ptr<StrandRunner> runner) {
  if (this_threads_wakes == nullptr) return false;
  auto& asleep = this_threads_wakes->asleep_;
  if (std::ranges::find(asleep, runner) == asleep.end()) asleep.push_back(std::move(runner));
  return true;
}

void StrandRunner::Schedule(std::shared_ptr<Strand> strand) {
  using State = Strand::State;
  State state = strand->state_.load();
  for (;;) {
    switch (state) {
      case State::kQueued:
      case State::kRunningAgain:
        return;
      case State::kIdle:
        if (!strand->state_.compare_exchange_weak(state, State::kQueued)) continue;
        Push(std::move(strand));
        return;
      case State::kRunning:
        strand->again_on_.store(this);
        if (!strand->state_.compare_exchange_weak(state, State::kRunningAgain)) continue;
        return;
    }
  }
}

void StrandRunner::Run(std::shared_ptr<Strand> strand) {
  using State = Strand::State;
  strand->state_.store(State::kRunning);
  strand->RunStrand();
  State state = State::kRunning;
  if (strand->state_.compare_exchange_strong(state, State::kIdle)) return;
  // The strand was scheduled while it ran. It is queued again behind the others, so that no strand
  // monopolizes a thread.
  StrandRunner* const runner = strand->again_on_.load();
  strand->state_.store(State::kQueued);
  runner->Push(std::move(strand));
}

}  // namespace lockstep::router
