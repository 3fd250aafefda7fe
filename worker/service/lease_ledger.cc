#include "worker/service/lease_ledger.h"

#include "common/lease_epoch.h"
#include "common/status.h"

namespace lockstep::worker {
namespace {

// True if the message has an epoch and a claim and nothing else.
bool StandsAlone(const v1::StepRequest& message) {
  v1::StepRequest bare;
  bare.set_epoch(message.epoch());
  *bare.mutable_claim() = message.claim();
  return bare.ByteSizeLong() == message.ByteSizeLong();
}

}  // namespace

absl::Status LeaseLedger::Claim(const v1::StepRequest& message) {
  if (!message.has_claim()) {
    return InvalidArgument("claim: the first message of a stream must be a claim");
  }
  if (!StandsAlone(message)) {
    return InvalidArgument("claim: must stand alone, with step_id 0");
  }
  const uint64_t expected = message.claim().expected_incarnation();
  if (expected != 0 && expected != incarnation_) {
    return FailedPrecondition("claim.expected_incarnation: got {}, this worker is {}", expected,
                              incarnation_);
  }
  if (message.epoch() <= last_epoch_) {
    return FailedPrecondition("epoch: must be above {}, got {}", last_epoch_, message.epoch());
  }
  if (message.epoch() > HighestClaimableEpoch(last_epoch_)) {
    return FailedPrecondition("epoch: must be at most {}, got {}",
                              HighestClaimableEpoch(last_epoch_), message.epoch());
  }
  if (live_epoch_ != 0 && !stand_in_ && message.claim().stand_in()) {
    return FailedPrecondition(
        "claim.stand_in: another router serves this worker as its own (epoch {} holds the lease)",
        live_epoch_);
  }
  if (live_epoch_ != 0 && !message.claim().takeover()) {
    if (stand_in_ && !message.claim().stand_in()) {
      asked_back_ = true;
      return FailedPrecondition(
          "claim: a router that stands in for this one gives the worker back (epoch {} holds the "
          "lease)",
          live_epoch_);
    }
    return FailedPrecondition(
        "claim.takeover: another router serves this worker; --takeover takes its place (epoch {} "
        "holds the lease)",
        live_epoch_);
  }
  live_epoch_ = last_epoch_ = message.epoch();
  stand_in_ = message.claim().stand_in();
  asked_back_ = false;
  return absl::OkStatus();
}

void LeaseLedger::End(uint64_t epoch) {
  if (live_epoch_ != epoch) return;
  live_epoch_ = 0;
  stand_in_ = asked_back_ = false;
}

}  // namespace lockstep::worker
