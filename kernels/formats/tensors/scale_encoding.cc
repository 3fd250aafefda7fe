#include "kernels/formats/tensors/scale_encoding.h"

#include <bit>
#include <utility>

#include "common/status.h"
#include "kernels/core/bfloat16.h"
#include "kernels/quant/float16.h"

namespace lockstep::kernels {

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
