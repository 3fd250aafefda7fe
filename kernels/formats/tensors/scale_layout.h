#pragma once

#include <absl/status/status.h>

#include "common/model_files/quantization/quantization_config.h"
#include "common/model_files/safetensors.h"
#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// How scales are used: codes of integers take them in bf16, others in fp32.
enum class ScaleRounding { kNone, kBFloat16 };

// Sets group_columns and scales of `matrix` from a tensor of this extent. n and k must be set.
//   kTensor   [], [1] or [1, 1]
//   kChannel  [n, 1] or [n]
//   kGroup    [n, k / group_size]; the size divides k
//   kBlock    [ceil(n / block_rows), ceil(k / block_columns)]
// A scale of several rows is repeated. Errors name the tensor.
absl::Status SetScales(const SafetensorsTensor& scale, const WeightScheme& scheme,
                       ScaleRounding rounding, QuantizedMatrix* matrix);

// Sets zeros from a tensor I8 of signed zero points, with the shape of the scales.
absl::Status SetSignedZeros(const SafetensorsTensor& zero_point, const WeightScheme& scheme,
                            QuantizedMatrix* matrix);

// A symmetric scheme has no zero points; older files have some all the same, and all are 0.
absl::Status ExpectZeroBytes(const SafetensorsTensor* zero_point);

}  // namespace lockstep::kernels
