#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::worker {

// Who may drive this worker: the rules of epochs and takeover, as a pure state machine. Knows no
// stream; its owner ends the stream of a lease that a takeover replaces.
class LeaseLedger {
 public:
  explicit LeaseLedger(uint64_t incarnation) : incarnation_(incarnation) {}

  // The lease is granted, or an error says why not: INVALID_ARGUMENT for a message that is no
  // claim, FAILED_PRECONDITION for an epoch that is old or too far ahead (lease_epoch.h), a wrong
  // incarnation, or a living lease without takeover.
  absl::Status Claim(const v1::StepRequest& message);
  // Forgets the lease if it is still the one that lives.
  void End(uint64_t epoch);

  uint64_t live_epoch() const { return live_epoch_; }  // 0: none
  uint64_t last_epoch() const { return last_epoch_; }  // the highest ever granted; 0: none

 private:
  const uint64_t incarnation_;
  uint64_t live_epoch_ = 0;
  uint64_t last_epoch_ = 0;
};

}  // namespace lockstep::worker
