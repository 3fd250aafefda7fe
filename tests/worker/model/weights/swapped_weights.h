#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::worker {

// A storage of packed weights for tests: bf16 with its two bytes swapped, row-major.
class SwappedWeights final : public kernels::PackedWeights {
 public:
  static absl::StatusOr<std::unique_ptr<kernels::PackedWeights>> Create(
      std::span<const kernels::QuantizedMatrix> parts);

  int64_t num_bytes() const override;
  std::string storage_name() const override { return "swapped bf16"; }
  absl::Status Multiply(const kernels::Stream& stream,
                        const kernels::GemmParams& params) const override;

 private:
  int64_t k_ = 0;
  std::vector<uint16_t> values_;
};

}  // namespace lockstep::worker
