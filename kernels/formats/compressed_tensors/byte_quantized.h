#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// Codes of one byte each, beside their scales. compressed-tensors calls them "float-quantized" and
// "int-quantized"; ModelOpt's FP8, and "fp8" without blocks, look the same.
//   weight             F8_E4M3 or I8 [N, K]
//   weight_scale       F32, F16 or BF16, a scheme's extent
//   weight_zero_point  I8, the shape of weight_scale: integers only, and only if not symmetric
// input_scale may be there: static scales of activations, which weight-only products do not read.
namespace lockstep::kernels {

// Scales stay in fp32.
absl::StatusOr<QuantizedMatrix> DecodeFloatQuantized(const ModuleTensors& tensors,
                                                     const WeightScheme& scheme);
// The same with another name for the scales, and without a look at zero points.
absl::StatusOr<QuantizedMatrix> DecodeE4M3(const ModuleTensors& tensors, const WeightScheme& scheme,
                                           std::string_view scale_suffix);
// Scales are rounded to bf16, as those of pack-quantized.
absl::StatusOr<QuantizedMatrix> DecodeIntQuantized(const ModuleTensors& tensors,
                                                   const WeightScheme& scheme);

// The inverse for kFp8E4M3: a scale a row, or for each block of `block_rows` rows, which must have
// equal scales then. 0: no blocks.
absl::StatusOr<std::vector<EncodedTensor>> EncodeFloatQuantized(
    const QuantizedMatrix& matrix, SafetensorsDtype scale_dtype, int64_t block_rows = 0,
    std::string_view scale_suffix = "weight_scale");
absl::StatusOr<std::vector<EncodedTensor>> EncodeIntQuantized(const QuantizedMatrix& matrix,
                                                              SafetensorsDtype scale_dtype);

}  // namespace lockstep::kernels
