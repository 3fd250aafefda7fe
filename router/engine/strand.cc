#include "router/engine/strand.h"

#include <utility>

namespace lockstep::router {

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
  // Scheduled while it ran: behind those that wait, so that no strand keeps a thread.
  StrandRunner* const runner = strand->again_on_.load();
  strand->state_.store(State::kQueued);
  runner->Push(std::move(strand));
}

}  // namespace lockstep::router
