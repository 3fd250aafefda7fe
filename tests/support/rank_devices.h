#pragma once

#include <cstdlib>
#include <vector>

#include "common/check.h"
#include "tests/support/num_devices.h"

// For tests of ranks on GPUs. They run on one GPU, too: then all ranks share it.
namespace lockstep::testing {

// Ranks on one device wait for each other there, and launch one after the other. So no launch may
// wait for the device: kernels are loaded at the start, not at their first launch, and every stream
// has a queue of its own. CUDA reads both variables at its first call, after this.
inline const bool kRanksMayShareADevice = setenv("CUDA_MODULE_LOADING", "EAGER", 1) == 0 &&
                                          setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) == 0;

// A device for each rank if there are so many, else the first one for all of them.
inline std::vector<int> RankDevices(int degree) {
  LOCKSTEP_CHECK(kRanksMayShareADevice, "setenv");
  const int num_devices = NumDevices();
  std::vector<int> devices;
  for (int rank = 0; rank < degree; ++rank) devices.push_back(num_devices >= degree ? rank : 0);
  return devices;
}

}  // namespace lockstep::testing
