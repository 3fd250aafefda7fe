#include "kernels/formats/fp8_block/fp8_block.h"

#include "kernels/formats/compressed_tensors/byte_quantized.h"

namespace lockstep::kernels {
namespace {

constexpr std::string_view kScaleSuffix = "weight_scale_inv";

}  // namespace

absl::StatusOr<QuantizedMatrix> DecodeFp8Block(const ModuleTensors& tensors,
                                               const WeightScheme& scheme) {
  return DecodeE4M3(tensors, scheme, kScaleSuffix);
}

absl::StatusOr<std::vector<EncodedTensor>> EncodeFp8Block(const QuantizedMatrix& matrix,
                                                          SafetensorsDtype scale_dtype,
                                                          int64_t block_rows) {
  return EncodeFloatQuantized(matrix, scale_dtype, block_rows, kScaleSuffix);
}

}  // namespace lockstep::kernels
