#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>

namespace lockstep::router {

// The leases of one worker that this router claimed, by their epochs. After an unanswered claim it
// is unknown whether it arrived, until the worker names the last epoch that it granted. Pure.
class LeaseClaims {
 public:
  // How many claims are remembered while no arrival is known. The oldest are forgotten first,
  // except the lease that the worker granted last.
  static constexpr size_t kMaxClaims = 64;

  // The epoch of a new claim: above all of this router's, and above `last_granted`, the last that
  // the worker granted to anybody. Epochs are times, so a restarted router's are higher than those
  // of its former life.
  uint64_t Claim(uint64_t last_granted, absl::Time now);

  // The worker refused the newest claim. Its epoch is not ours, even if another router has it now.
  void OnRefused() { claimed_.pop_back(); }

  // Whether this router claimed the last lease that the worker granted.
  bool IsOurs(uint64_t last_granted);

 private:
  uint64_t last_epoch_ = 0;
  std::deque<uint64_t> claimed_;  // granted, or perhaps granted; ascending
};

}  // namespace lockstep::router
