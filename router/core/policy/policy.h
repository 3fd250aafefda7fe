#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <string_view>

#include "common/instant.h"

namespace lockstep::router {

// What a policy may know of a sequence.
struct PolicyView {
  int32_t priority = 0;
  Instant arrival;
  uint64_t order = 0;  // order of submission; breaks every tie
  std::string_view tenant;
  uint32_t num_known_tokens = 0;
};

// Orders the waiting sequences and chooses the victim of a preemption. `Before` is a strict weak
// order of views at one `now`.
class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;
  // True when `a` should run before `b`. The victim of a preemption is the last in this order.
  virtual bool Before(const PolicyView& a, const PolicyView& b, Instant now) const = 0;
};

}  // namespace lockstep::router
