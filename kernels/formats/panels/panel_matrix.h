#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/formats/panels/panel_layout.h"
#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// Weights that stay packed, as the CPU's products read them: panels of 32 outputs, as those in
// bf16 (kernels/gemm/packed_matrix.h). kernels/formats/panels/panel_layout.h says where the parts
// of a panel lie.
struct PanelMatrix {
  const std::byte* data = nullptr;  // [panels][layout.panel_bytes]
  int64_t n = 0;                    // outputs
  int64_t k = 0;                    // inputs, even
  PanelLayout layout;
};

int64_t NumBytes(const PanelMatrix& matrix);

struct alignas(64) PanelLine {
  std::byte bytes[64];
};

// The whole matrix. matrix.data points to the bytes of `storage`, so it can be moved, not copied.
struct PackedPanels {
  PackedPanels() = default;
  PackedPanels(PackedPanels&&) = default;
  PackedPanels& operator=(PackedPanels&&) = default;

  PanelMatrix matrix;
  std::vector<PanelLine> storage;
};

// Takes every kind of codes and every size of groups. The values are those of DequantizeRow.
// INVALID_ARGUMENT for an odd k, groups that are not contiguous, and codes that their kind lacks.
absl::StatusOr<PackedPanels> PackPanels(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
