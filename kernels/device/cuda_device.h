#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace lockstep::kernels {

// What the CUDA kernels must know of the device they run on.
struct CudaDevice {
  std::string name;
  int compute_capability = 0;  // 90 for Hopper
  int num_multiprocessors = 0;
  int64_t memory_bytes = 0;
};

// The device with this index. UNAVAILABLE when the machine has no driver or no device at all,
// INTERNAL for any other CUDA error, also for an index that no device has. If there is a driver,
// the error has the runtime's own message.
absl::StatusOr<CudaDevice> DescribeCudaDevice(int index);

}  // namespace lockstep::kernels
