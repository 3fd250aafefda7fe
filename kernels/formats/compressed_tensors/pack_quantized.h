#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// "pack-quantized" of compressed-tensors (github.com/vllm-project/compressed-tensors): integers of
// 4 or 8 bits in int32 words.
//   weight_packed      I32 [N, ceil(K * bits / 32)]: along K, lowest bits first
//   weight_scale       F16, BF16 or F32, a scheme's extent; rounded to bf16
//   weight_zero_point  I32 [ceil(N * bits / 32), groups]: along N; only if not symmetric
//   weight_shape       I64 or I32 [2]: {N, K}
//   weight_g_idx       I32 [K], optional: the group of each column; all -1 where there is no order
// Stored integers are signed ones plus 2^(bits - 1), zero points as well.
namespace lockstep::kernels {

absl::StatusOr<QuantizedMatrix> DecodePackQuantized(const ModuleTensors& tensors,
                                                    const WeightScheme& scheme);

// The inverse, for kInt4 and kInt8; one scale a row if there is one group, else groups.
absl::StatusOr<std::vector<EncodedTensor>> EncodePackQuantized(const QuantizedMatrix& matrix,
                                                               SafetensorsDtype scale_dtype);

}  // namespace lockstep::kernels
