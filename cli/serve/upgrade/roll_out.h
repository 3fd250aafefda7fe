#pragma once

#include <absl/time/time.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "common/instant.h"

namespace lockstep::cli {

// What the router says about a worker. kUnknown: it did not answer.
enum class RouterView { kUnknown, kReady, kMismatched, kOther };

struct WorkerView {
  bool running = false;
  bool listening = false;
  RouterView router = RouterView::kUnknown;
};

// The order in which workers get their new program, one after the other: end, start, until the
// router uses the successor. A worker is ended only while the router uses all others. The first
// problem ends the roll-out, and the workers that are left keep their program. Pure; it knows no
// process and no text.
class RollOut {
 public:
  // How long the router may take to use a worker that listens.
  static constexpr absl::Duration kJoinPatience = absl::Minutes(2);

  enum class Event {
    kNone,
    kWaits,       // for this worker, before another one ends
    kEnd,         // ask this worker to drain
    kStart,       // start this worker's successor
    kReplaced,    // the router uses the successor
    kDone,        // of the last worker: likewise
    kMismatched,  // failed: the router refuses this worker
    kNotUsed,     // failed: the router does not use this worker, although it listens
    kEndedEarly,  // failed: this worker ended before the router used it
  };
  struct Decision {
    Event event = Event::kNone;
    size_t worker = 0;

    friend bool operator==(const Decision&, const Decision&) = default;
  };

  // At least one worker.
  explicit RollOut(size_t num_workers) : num_workers_(num_workers) {}

  // What to do now. Call it again and again until the roll-out is over.
  Decision Look(const std::vector<WorkerView>& workers, Instant now);
  // A worker's process ended. `listened`: it had listened before.
  Decision OnEnded(size_t worker, bool listened);

  // True if the roll-out ended this worker, and starts its successor.
  bool Ends(size_t worker) const { return phase_ == Phase::kEnding && worker == turn_; }
  // True if the next Look depends on what the router says.
  bool asks_router() const { return phase_ != Phase::kStarting; }
  bool over() const { return phase_ == Phase::kOver; }

 private:
  enum class Phase { kWaiting, kEnding, kStarting, kJoining, kOver };

  Decision Enter(Phase phase, Event event) { return Enter(phase, event, turn_); }
  Decision Enter(Phase phase, Event event, size_t worker);
  Decision LookAtOthers(const std::vector<WorkerView>& workers, Instant now);
  Decision LookAtSuccessor(const WorkerView& successor, Instant now);

  const size_t num_workers_;
  size_t turn_ = 0;  // the worker that is replaced now, or next
  Phase phase_ = Phase::kWaiting;
  std::optional<size_t> waits_for_;                  // another worker, before the one in turn ends
  Instant listens_since_ = Instant::InfinitePast();  // the worker that the router should use
};

}  // namespace lockstep::cli
