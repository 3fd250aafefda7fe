#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/activation/swiglu.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/plan/cuda_gemm.h"

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

  // RESOURCE_EXHAUSTED naming the product when device memory is short.
  static absl::StatusOr<GemmTrial> Create(const CudaStream& stream, const GemmShape& shape);

  const GemmShape& shape() const { return shape_; }
  // The first num_rows rows, with the output that implementations write (gated: of SwiGLU). Copy
  // `copy` of the weights, modulo how many there are: together more than a cache holds.
  GemmParams Params(int64_t num_rows, int64_t copy) const;
  // Gated, for two kernels: the product alone, in memory of its own; and SwiGLU of it to where
  // `params` say.
  GemmParams ProductParams(const GemmParams& params) const;
  static SwiGluParams SwiGluOf(const GemmParams& product, const GemmParams& params);

  // The first output of num_rows rows that differs from the reference's, if any.
  absl::StatusOr<std::optional<Difference>> FindDifference(const CudaStream& stream,
                                                           const Implementation& implementation,
                                                           int64_t num_rows) const;
  // The median time of one call of each, with a small kernel after it. A product's cost includes
  // how it begins and ends beside small kernels. The calls run in graphs, each with other weights.
  // The implementations take turns without a pause, because a device that is kept busy clocks
  // lower.
  absl::StatusOr<std::vector<float>> Milliseconds(const CudaStream& stream,
                                                  std::span<const Implementation> implementations,
                                                  int64_t num_rows) const;

 private:
  GemmTrial() = default;
  int64_t num_columns() const { return shape_.gated ? shape_.n / 2 : shape_.n; }
  int64_t OutputBytes(int64_t num_rows) const;
  absl::Status EnqueueProducts(const CudaStream& stream, const Implementation& implementation,
                               int64_t num_rows) const;

  GemmShape shape_;
  int64_t num_copies_ = 1;
  DeviceBuffer weights_;
  DeviceBuffer input_;
  DeviceBuffer bias_;
  DeviceBuffer product_;  // gated
  DeviceBuffer small_;    // what the small kernels work on
  DeviceBuffer expected_;
  DeviceBuffer output_;
  DeviceBuffer difference_;
};

}  // namespace lockstep::kernels
