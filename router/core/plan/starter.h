#pragma once

#include <cstdint>

#include "router/core/plan/fair_order.h"
#include "router/core/plan/open_step.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

// Decides which waiting sequence starts next in a step, and starts it: gives it a slot and blocks.
// Lives as long as the step is planned.
//
// Sequences start in the fair order. To prevent starvation by ever new tenants, every sixteenth
// start ignores fairness and takes the policy's first. The last sixteenth of the slots is reserved
// for tenants that run fewer sequences than that. So a tenant with few requests need not wait until
// a tenant that fills all slots finishes one.
//
// A sequence starts with blocks for all its tokens or not at all. In a group with a window it
// starts with the blocks of a window.
class Starter {
 public:
  // Both must outlive the object.
  Starter(OpenStep& step, const FairOrder& order) : step_(step), order_(order) {}

  // False if nothing may start before a sequence ends, while blocks are short, or once this step
  // starts enough.
  bool HasRoom() const;
  // True if a sequence that was to start lacked blocks, and neither blocks nor sequences have
  // changed since.
  bool IsBlocked() const;
  // True if nothing may start beside the decodes, because they take all the time per token.
  bool PaceHoldsBack() const;

  // The waiting sequence that starts next, in the fair order or in the policy's. Null if none may
  // start.
  Sequence* Next() const;
  // Starts the next sequence if it fits and goes before `rival` (or `rival` is null). Otherwise
  // returns null.
  Sequence* StartNext(const Sequence* rival);
  bool StartIfFits(Sequence& sequence);

 private:
  // True if the remaining slots are reserved for other tenants.
  bool KeptFrom(const Sequence& sequence) const;
  void AddStarted(const Sequence& sequence, Residency& residency);

  OpenStep& step_;
  const FairOrder& order_;
  uint64_t num_started_ids_ = 0;  // see SchedulerConfig::max_started_ids_per_step
};

}  // namespace lockstep::router
