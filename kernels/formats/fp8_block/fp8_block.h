#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// "fp8" with blocks, as DeepSeek and Qwen publish it.
//   weight            F8_E4M3 [N, K]
//   weight_scale_inv  F32 or BF16 [ceil(N / block_rows), ceil(K / block_columns)]
// The scale is a factor, despite its name.
namespace lockstep::kernels {

absl::StatusOr<QuantizedMatrix> DecodeFp8Block(const ModuleTensors& tensors,
                                               const WeightScheme& scheme);

// The inverse; the rows of a block must have equal scales.
absl::StatusOr<std::vector<EncodedTensor>> EncodeFp8Block(const QuantizedMatrix& matrix,
                                                          SafetensorsDtype scale_dtype,
                                                          int64_t block_rows);

}  // namespace lockstep::kernels
