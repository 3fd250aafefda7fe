#include "kernels/formats/tensors/scale_encoding.h"

#include <bit>
#include <cmath>
#include <utility>

#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {
namespace {

// Exact for values that binary16 holds; something else otherwise.
uint16_t TruncateToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-14f) return sign | static_cast<uint16_t>(magnitude * 0x1p24f);
  if (!(magnitude < 65536.0f)) return sign | 0x7C00u;
  return sign | static_cast<uint16_t>((std::bit_cast<uint32_t>(magnitude) - (112u << 23)) >> 13);
}

}  // namespace

absl::StatusOr<EncodedTensor> EncodeScales(std::string suffix, SafetensorsDtype dtype,
                                           std::vector<int64_t> shape,
                                           std::span<const float> scales) {
  if (dtype == SafetensorsDtype::kF32) {
    return MakeTensor(std::move(suffix), dtype, std::move(shape),
                      std::vector<float>(scales.begin(), scales.end()));
  }
  std::vector<uint16_t> halves;
  halves.reserve(scales.size());
  for (const float scale : scales) {
    const bool is_half = dtype == SafetensorsDtype::kF16;
    const uint16_t bits = is_half ? TruncateToFloat16(scale) : ToBFloat16(scale).bits;
    const float again = is_half ? Float16ToFloat(bits) : ToFloat(BFloat16{bits});
    if (std::bit_cast<uint32_t>(again) != std::bit_cast<uint32_t>(scale)) {
      return InvalidArgument("{}: the scale {} has no exact value in {}", suffix, scale,
                             SafetensorsDtypeName(dtype));
    }
    halves.push_back(bits);
  }
  return MakeTensor(std::move(suffix), dtype, std::move(shape), halves);
}

}  // namespace lockstep::kernels
