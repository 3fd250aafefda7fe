#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <queue>
#include <vector>

#include "common/check.h"
#include "common/instant.h"
#include "common/runtime/clock.h"

namespace lockstep::bench {

enum class EventKind {
  kArrival,  // `who`: the trace
  kTimer,    // of replica `who`
  kResult,   // reaches the router from worker `who`
  kClaim,    // worker `who` can be reached and takes a lease
  kFault,    // happens to worker `who`
  kRecover,  // worker `who` is as fast as before
};

struct Event {
  Instant at;
  uint64_t order = 0;  // of posting: events of one moment happen in this order
  EventKind kind = EventKind::kTimer;
  uint32_t who = 0;
  uint64_t life = 0;  // of the worker: the event is void in any other
};

// What will happen, and the clock that jumps from one event to the next. One thread only.
class EventQueue final : public Clock {
 public:
  Instant Now() const override { return now_; }
  absl::Time TimeOfDay() const override { return absl::UnixEpoch() + (now_ - Instant()); }

  // Never in the past.
  void Post(Instant at, EventKind kind, uint32_t who, uint64_t life = 0) {
    events_.push({at < now_ ? now_ : at, next_order_++, kind, who, life});
  }
  bool empty() const { return events_.empty(); }
  Event Take() {
    LOCKSTEP_CHECK(!events_.empty(), "nothing will ever happen again");
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  Instant now_ = Instant();
  uint64_t next_order_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
};

}  // namespace lockstep::bench
