#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device/cuda_stream.h"
#include "kernels/device/device_buffer.h"
#include "kernels/exchange/exchange.h"
#include "kernels/norm/rms_norm.h"

namespace lockstep::worker {

// A matrix of any element type, with columns that the ranks of a group computed.
struct DeviceColumns {
  const void* columns = nullptr;  // [num_rows, row_bytes], of this rank
  void* output = nullptr;         // [num_rows, degree * row_bytes]
  int64_t num_rows = 0;
  int64_t row_bytes = 0;  // of one rank's columns, a multiple of 16
};

// True if two ranks have the same device, which happens only in tests.
bool ShareADevice(const std::vector<int>& devices);

// The exchange of a tensor-parallel group on the GPUs of this machine. Owns the memory for pushed
// and posted data. It only enqueues work and moves bytes, so it cannot change a result. Different
// ranks may call it at the same time. Must outlive the work on the ranks' streams.
class DeviceGroup {
 public:
  struct Options {
    std::vector<int> devices;  // of each rank; only tests list one twice
    // For a rank's columns, see kernels::ExchangeGroup. None: kMaxPushedBytes for all ranks
    // together.
    std::optional<int64_t> max_push_bytes = std::nullopt;
    // If a rank waits longer for another rank, it ends its kernel with an error, and the process
    // ends.
    std::chrono::nanoseconds hung_after = std::chrono::seconds(3);
  };

  // Measured: two H200s push 1 MiB sooner than they put it (5.7 us for 7.7). Four push 512 KiB
  // sooner (5.7 for 8.5), and 2 MiB later (13.7 for 11.1). Covers most exchanges of a decode step.
  static constexpr int64_t kMaxPushedBytes = 1 << 20;

  // Gives every device access to the memory of the others. Changes the thread's current device.
  // FAILED_PRECONDITION names two devices without access to each other, or a device with too few
  // multiprocessors.
  static absl::StatusOr<std::unique_ptr<DeviceGroup>> Create(const Options& options);
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  int degree() const { return static_cast<int>(memories_.size()); }
  int64_t memory_bytes() const;  // of one rank

  // Every rank must call this with equal sizes, equally often and in the same order, on its own
  // stream. The next kernel may write to `columns` again. Peers write to `output`, so it must be
  // memory of cudaMalloc.
  absl::Status AllGather(int rank, const kernels::CudaStream& stream, const DeviceColumns& params);

  // AllGather of `columns`, [norm.num_rows, norm.size / degree], and the norm with the gathered
  // matrix as its delta, as one kernel. Returns false and enqueues nothing if there is no such
  // kernel for these sizes. The answer is the same for all ranks.
  absl::StatusOr<bool> GatherRmsNorm(int rank, const kernels::CudaStream& stream,
                                     const kernels::BFloat16* columns,
                                     const kernels::RmsNormParams& norm);

  // After an error of a device: names the rank that waited too long and the rank that did not come.
  // Empty if none waited too long.
  std::string HangReport() const;

  // For tests: the group as the kernels of one rank see it.
  kernels::ExchangeGroup View(int rank) const;

 private:
  explicit DeviceGroup(const Options& options);

  const Options options_;
  const int64_t max_push_bytes_;
  const bool shares_a_device_;
  kernels::PinnedBuffer hang_;
  std::vector<kernels::DeviceBuffer> memories_;  // of each rank
};

}  // namespace lockstep::worker
