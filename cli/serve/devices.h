#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct Gpu {
  std::string name;
  std::string compute_capability = {};  // "9.0"; empty: unknown
  std::string uuid = {};

  friend bool operator==(const Gpu&, const Gpu&) = default;
};

// Parses the output of nvidia-smi for name, compute_cap and uuid as CSV without a header. Pure.
std::vector<Gpu> ParseGpus(std::string_view csv);

// The GPUs that CUDA shows to a program. `visible` is the value of CUDA_VISIBLE_DEVICES: indices,
// or beginnings of UUIDs, separated by commas. None: all GPUs are shown. Like CUDA, this stops at
// the first entry that is no device. Pure.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& gpus,
                             const std::optional<std::string>& visible);

struct DeviceChoice {
  bool cuda = false;
  uint32_t num_workers = 1;
  uint32_t num_ranks = 1;  // of each worker; on CUDA, GPUs
  std::string note = {};   // what the user should know; may be empty
};
// `device`: auto, cpu or cuda. FAILED_PRECONDITION naming the GPU that cannot be used, or what is
// missing. Pure.
absl::StatusOr<DeviceChoice> ChooseDevices(std::string_view device, bool built_with_cuda,
                                           const std::vector<Gpu>& gpus, uint32_t num_ranks = 1);

// --cuda-device of worker number `worker`: GPUs that no other worker has. Pure.
std::string DevicesOfWorker(const DeviceChoice& choice, uint32_t worker);

// The GPUs of this machine: from nvidia-smi, else by counting /dev/nvidia0, /dev/nvidia1, ...
std::vector<Gpu> FindGpus();

}  // namespace lockstep::cli
