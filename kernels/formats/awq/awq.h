#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// The layout "gemm" of AWQ (github.com/casper-hansen/AutoAWQ): 4 bits, with zero points. All
// tensors are transposed: K comes first.
//   qweight  I32 [K, N / 8]: nibble i of word c holds row 8 c + {0, 2, 4, 6, 1, 3, 5, 7}[i]
//   qzeros   I32 [K / group_size, N / 8]: the same order
//   scales   F16 or BF16 [K / group_size, N]; rounded to bf16
namespace lockstep::kernels {

absl::StatusOr<QuantizedMatrix> DecodeAwq(const ModuleTensors& tensors, const WeightScheme& scheme);

// The inverse. N must be a multiple of 8, and the groups must divide K.
absl::StatusOr<std::vector<EncodedTensor>> EncodeAwq(const QuantizedMatrix& matrix,
                                                     SafetensorsDtype scale_dtype);

}  // namespace lockstep::kernels
