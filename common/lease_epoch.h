#pragma once

#include <algorithm>
#include <cstdint>

// The numbers of leases on a worker, as both ends of the step protocol count them. A router may
// jump ahead, because it takes the time in microseconds for its epochs. A jump ends at kFreeEpochs,
// and above it epochs rise one by one. So no claim can use the epochs up: counting through the rest
// takes longer than any worker lives.
namespace lockstep {

inline constexpr uint64_t kFreeEpochs = uint64_t{1} << 62;
// No worker ever gets there.
inline constexpr uint64_t kHighestEpoch = uint64_t{1} << 63;

// The highest epoch that may be claimed while `last` is the highest that was granted.
inline constexpr uint64_t HighestClaimableEpoch(uint64_t last) {
  return last < kFreeEpochs ? kFreeEpochs : std::min(last, kHighestEpoch - 1) + 1;
}

}  // namespace lockstep
