#include "cli/serve/upgrade/roll_out.h"

namespace lockstep::cli {
namespace {

// Until the router has noticed the end, it still says what it said about the process that ended.
bool IsForgotten(const WorkerView& worker) {
  return !worker.running && worker.router != RouterView::kReady &&
         worker.router != RouterView::kMismatched;
}

}  // namespace

RollOut::Decision RollOut::Enter(Phase phase, Event event, size_t worker) {
  phase_ = phase;
  waits_for_.reset();
  return {event, worker};
}

RollOut::Decision RollOut::Look(const std::vector<WorkerView>& workers, Instant now) {
  const WorkerView& current = workers[turn_];
  switch (phase_) {
    case Phase::kWaiting:
      if (current.running) return LookAtOthers(workers, now);
      [[fallthrough]];  // it died before its turn
    case Phase::kEnding:
      if (!IsForgotten(current)) return {};
      return Enter(Phase::kStarting, Event::kStart);
    case Phase::kStarting:
      if (!current.listening) return {};
      listens_since_ = now;
      phase_ = Phase::kJoining;
      return {};
    case Phase::kJoining:
      return LookAtSuccessor(current, now);
    case Phase::kOver:
      return {};
  }
  return {};
}

RollOut::Decision RollOut::LookAtOthers(const std::vector<WorkerView>& workers, Instant now) {
  for (size_t i = 0; i < num_workers_; ++i) {
    const WorkerView& other = workers[i];
    if (i == turn_ || (other.listening && other.router == RouterView::kReady)) continue;
    if (other.listening && other.router == RouterView::kMismatched) {
      return Enter(Phase::kOver, Event::kMismatched, i);
    }
    const bool is_new = waits_for_ != i;
    if (is_new || !other.listening) listens_since_ = now;
    if (now - listens_since_ >= kJoinPatience) return Enter(Phase::kOver, Event::kNotUsed, i);
    waits_for_ = i;
    return is_new ? Decision{Event::kWaits, i} : Decision();
  }
  return Enter(Phase::kEnding, Event::kEnd);
}

RollOut::Decision RollOut::LookAtSuccessor(const WorkerView& successor, Instant now) {
  if (successor.router == RouterView::kReady) {
    const size_t replaced = turn_++;
    const bool is_last = turn_ == num_workers_;
    return Enter(is_last ? Phase::kOver : Phase::kWaiting,
                 is_last ? Event::kDone : Event::kReplaced, replaced);
  }
  if (successor.router == RouterView::kMismatched) return Enter(Phase::kOver, Event::kMismatched);
  if (now - listens_since_ < kJoinPatience) return {};
  return Enter(Phase::kOver, Event::kNotUsed);
}

RollOut::Decision RollOut::OnEnded(size_t worker, bool listened) {
  if (over() || Ends(worker)) return {};
  const bool is_successor =
      worker == turn_ && (phase_ == Phase::kStarting || phase_ == Phase::kJoining);
  if (!is_successor && listened) return {};  // it starts again, as always
  return Enter(Phase::kOver, Event::kEndedEarly, worker);
}

}  // namespace lockstep::cli
