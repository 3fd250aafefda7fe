#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device/device_buffer.h"
#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::kernels {

// Memory for the codes and scales of one product's input. Products that follow each other on one
// stream share it.
class Fp8Scratch {
 public:
  // On the current device. RESOURCE_EXHAUSTED when device memory is short.
  static absl::StatusOr<Fp8Scratch> Create(int64_t max_rows, int64_t max_k);

  uint8_t* codes() const { return codes_.data<uint8_t>(); }
  float* scales() const { return scales_.data<float>(); }
  bool Holds(int64_t num_rows, int64_t k) const { return num_rows <= max_rows_ && k <= max_k_; }
  int64_t num_bytes() const {
    return static_cast<int64_t>(codes_.num_bytes() + scales_.num_bytes());
  }

 private:
  int64_t max_rows_ = 0;
  int64_t max_k_ = 0;
  DeviceBuffer codes_;
  DeviceBuffer scales_;
};

// The weights of a product in E4M3, in memory of the GPU. A product turns its input to codes and
// multiplies codes (Fp8Gemm), so its bits are not those of products with the values in bf16. Parts
// whose blocks of rows do not meet are matrices of their own.
class Fp8ProductWeights final : public PackedWeights {
 public:
  // `parts`: one below the other. `scratch` outlives the object. On the current device. The bytes
  // may still be on their way: synchronise the device before the first product. INVALID_ARGUMENT as
  // from Fp8ScalesOf; RESOURCE_EXHAUSTED when device memory is short.
  static absl::StatusOr<std::unique_ptr<Fp8ProductWeights>> Create(
      std::span<const QuantizedMatrix> parts, const Fp8Scratch& scratch);
  explicit Fp8ProductWeights(const Fp8Scratch& scratch) : scratch_(scratch) {}

  int64_t num_bytes() const override;
  std::string storage_name() const override { return "fp8 with fp8 activations"; }
  absl::Status Multiply(const CudaStream& stream, const GemmParams& params) const override;
  bool CanExpand() const override { return false; }

 private:
  struct Piece {
    Fp8Weights matrix;
    DeviceBuffer codes;
    DeviceBuffer scales;
  };

  absl::Status Add(const QuantizedMatrix& matrix);

  const Fp8Scratch& scratch_;
  std::vector<Piece> pieces_;
};

// Start-up check: rows of random input with outliers have the same bits in batches of several
// sizes, up to `max_rows` rows, as in the largest batch. `weights` is an Fp8ProductWeights.
// INTERNAL naming the first output that differs.
absl::Status CheckFp8Products(const CudaStream& stream, const WeightMatrix& weights,
                              int64_t max_rows);

}  // namespace lockstep::kernels
