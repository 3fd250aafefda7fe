#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// GPTQ as AutoGPTQ and GPTQModel (github.com/ModelCloud/GPTQModel) store it: 4 or 8 bits. All
// tensors are transposed: K comes first. A word holds 32 / bits codes, lowest bits first.
//   qweight  I32 [K * bits / 32, N]: along K
//   qzeros   I32 [ceil(K / group_size), N * bits / 32]: along N; v1 stores one less in every code,
//            as a subtraction from the whole word, so that a 0 borrows from the code above it
//   scales   F16, BF16 or F32 [ceil(K / group_size), N]; rounded to bf16
//   g_idx    I32 [K], optional: the group of each column. Only act-order may permute them; without
//            it some tools write zeros, which nothing reads
namespace lockstep::kernels {

absl::StatusOr<QuantizedMatrix> DecodeGptq(const ModuleTensors& tensors,
                                           const WeightScheme& scheme);

// The inverse. K and N must fill whole words. `zeros_minus_one`: v1.
absl::StatusOr<std::vector<EncodedTensor>> EncodeGptq(const QuantizedMatrix& matrix,
                                                      SafetensorsDtype scale_dtype,
                                                      bool zeros_minus_one);

}  // namespace lockstep::kernels
