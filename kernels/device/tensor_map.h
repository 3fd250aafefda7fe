#pragma once

#include <absl/status/status.h>
#include <cuda.h>

#include <cstdint>
#include <span>

namespace lockstep::kernels {

enum class TensorElement { kBFloat16, kByte };

// One dimension of a tensor, and how much of it a box has.
struct TensorDimension {
  int64_t size;
  int64_t stride_bytes;  // of the first dimension: ignored, its elements lie side by side
  int box_size;
};

// A tensor map for the copy engine, of up to 5 dimensions. Boxes are swizzled by 128 bytes, as
// ptx::MatrixDescriptor says. What lies outside arrives as zero. The driver's function is looked
// up, so that nothing links the driver: UNAVAILABLE when the driver has none, INTERNAL when it
// refuses the sizes.
absl::Status EncodeTensorMap(const void* data, std::span<const TensorDimension> dimensions,
                             CUtensorMap* map, TensorElement element = TensorElement::kBFloat16);

}  // namespace lockstep::kernels
