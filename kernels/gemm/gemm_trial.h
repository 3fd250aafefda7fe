#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "kernels/device/cuda_stream.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/cuda_gemm.h"
#include "kernels/gemm/gemm.h"

namespace lockstep::kernels {

// Operands of one shape on the device, random with outliers, and the outputs that the reference
// chain gives for them: what implementations are checked and timed with before serving. Every call
// waits for the stream.
class GemmTrial {
 public:
  using Implementation = std::function<absl::Status(const CudaStream&, const GemmParams&)>;
  struct Difference {
    int64_t row;
    int64_t column;
  };

  static absl::StatusOr<GemmTrial> Create(const CudaStream& stream, const GemmShape& shape);

  // The first num_rows rows, with the output that implementations write.
  GemmParams Params(int64_t num_rows) const;
  // The first output of num_rows rows whose bits are not the reference's, if any.
  absl::StatusOr<std::optional<Difference>> FindDifference(const CudaStream& stream,
                                                           const Implementation& implementation,
                                                           int64_t num_rows) const;
  // Fastest of a few runs.
  absl::StatusOr<float> Milliseconds(const CudaStream& stream, const Implementation& implementation,
                                     int64_t num_rows) const;

 private:
  GemmTrial() = default;
  int64_t OutputBytes(int64_t num_rows) const;

  GemmShape shape_;
  DeviceBuffer weights_;
  DeviceBuffer input_;
  DeviceBuffer bias_;
  DeviceBuffer expected_;
  DeviceBuffer output_;
  DeviceBuffer difference_;
};

}  // namespace lockstep::kernels
