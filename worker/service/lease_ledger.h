#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::worker {

// Decides which router may drive this worker: the rules of epochs and takeover, as a pure state
// machine. Knows no stream. When a takeover replaces a lease, the ledger's owner ends that lease's
// stream.
class LeaseLedger {
 public:
  explicit LeaseLedger(uint64_t incarnation) : incarnation_(incarnation) {}

  // Grants the lease, or returns an error: INVALID_ARGUMENT for a message that is not a claim,
  // FAILED_PRECONDITION for an epoch that is old or too far ahead (lease_epoch.h), for a wrong
  // incarnation, or if another lease lives and the claim is no takeover. If that other lease is a
  // stand-in's, and the claim is not, the refused claim asks the lease back. A stand-in takes no
  // lease from a router that counts the worker as its own, even if it claims with takeover.
  absl::Status Claim(const v1::StepRequest& message);
  // Ends the lease of `epoch`. Does nothing if another lease lives by now.
  void End(uint64_t epoch);

  uint64_t live_epoch() const { return live_epoch_; }  // 0: none
  uint64_t last_epoch() const { return last_epoch_; }  // the highest ever granted; 0: none
  // A stand-in holds the living lease, and the router that the worker belongs to has claimed.
  bool asked_back() const { return asked_back_; }

 private:
  const uint64_t incarnation_;
  uint64_t live_epoch_ = 0;
  uint64_t last_epoch_ = 0;
  bool stand_in_ = false;  // of the living lease
  bool asked_back_ = false;
};

}  // namespace lockstep::worker
