#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/encoded_tensor.h"
#include "kernels/formats/tensors/tensor_checks.h"

// MXFP4 (OCP microscaling formats): E2M1 codes, and a power of two for 32 columns, stored as E8M0.
namespace lockstep::kernels {

// compressed-tensors: weight_packed U8 [N, K / 2], the low nibble is the even column; weight_scale
// U8 [N, K / 32].
absl::StatusOr<QuantizedMatrix> DecodeMxfp4Packed(const ModuleTensors& tensors);
absl::StatusOr<std::vector<EncodedTensor>> EncodeMxfp4Packed(const QuantizedMatrix& matrix);

// gpt-oss: one expert of NAME_blocks U8 [experts, N, K / 32, 16] and NAME_scales U8
// [experts, N, K / 32]. In gate_up_proj even rows belong to gate and odd rows to up.
absl::StatusOr<QuantizedMatrix> DecodeMxfp4Expert(const SafetensorsTensor& blocks,
                                                  const SafetensorsTensor& scales, int64_t expert);

}  // namespace lockstep::kernels
