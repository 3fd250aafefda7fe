#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device/device_buffer.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/strips/strip_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::kernels {

// The weights of a product in strips, in memory of the GPU. Parts with codes of different kinds,
// such as the v of a Q4_K_M file and its q and k, are matrices of their own, each with a kernel of
// its own.
class StripWeights final : public PackedWeights {
 public:
  // `parts`: one below the other. On the current device. The bytes
  // may still be on their way: synchronise the device before the first product. INVALID_ARGUMENT as
  // from PackStrips; RESOURCE_EXHAUSTED when device memory is short.
  static absl::StatusOr<std::unique_ptr<StripWeights>> Create(
      std::span<const QuantizedMatrix> parts);

  int64_t num_bytes() const override;
  std::string storage_name() const override;
  absl::Status Multiply(const CudaStream& stream, const GemmParams& params) const override;
  bool HasSwiGlu() const override;
  absl::Status MultiplySwiGlu(const CudaStream& stream, const GemmParams& params) const override;
  absl::Status Expand(const CudaStream& stream, BFloat16* output) const override;

 private:
  struct Piece {
    StripMatrix matrix;
    DeviceBuffer memory;
  };

  absl::Status Add(const QuantizedMatrix& matrix);

  std::vector<Piece> pieces_;
};

}  // namespace lockstep::kernels
