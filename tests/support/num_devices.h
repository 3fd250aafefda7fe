#pragma once

#include <cuda_runtime_api.h>

#include "common/check.h"

namespace lockstep::testing {

inline int NumDevices() {
  int num_devices = 0;
  LOCKSTEP_CHECK(cudaGetDeviceCount(&num_devices) == cudaSuccess, "cudaGetDeviceCount");
  return num_devices;
}

}  // namespace lockstep::testing
