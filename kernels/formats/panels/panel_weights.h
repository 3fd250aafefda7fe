#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/formats/panels/panel_matrix.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/packed_weights.h"

namespace lockstep::kernels {

// The weights of a product in panels of codes, in memory of the host. Parts with codes of different
// kinds, such as the v of a Q4_K_M file and its q and k, are matrices of their own.
class PanelWeights final : public PackedWeights {
 public:
  // `parts`: one below the other. INVALID_ARGUMENT as from PackPanels, and for weights that cannot
  // be decoded in registers: they are faster in bf16.
  static absl::StatusOr<std::unique_ptr<PackedWeights>> Create(
      std::span<const QuantizedMatrix> parts);

  int64_t num_bytes() const override;
  std::string storage_name() const override;
  absl::Status Multiply(const Stream& stream, const GemmParams& params) const override;

 private:
  struct Piece {
    PackedPanels panels;
    std::string name;
  };

  absl::Status Add(const QuantizedMatrix& matrix);

  std::vector<Piece> pieces_;
};

}  // namespace lockstep::kernels
