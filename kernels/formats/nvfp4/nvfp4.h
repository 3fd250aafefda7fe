#pragma once

#include <absl/status/statusor.h>

#include "common/model_files/quantization/quantization_config.h"
#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/tensors/tensor_checks.h"

// NVFP4: E2M1 codes, an E4M3 scale for 16 columns, and one fp32 scale for the matrix.
// compressed-tensors:
//   weight_packed        U8 [N, K / 2]: the low nibble is the even column
//   weight_scale         F8_E4M3 [N, K / 16]
//   weight_global_scale  F32, one element; weight_scale is divided by it
// ModelOpt: weight, weight_scale and weight_scale_2, which weight_scale is multiplied by.
// The scale of a group is that quotient or product in fp32; input scales are not read. The matrix
// has both levels: a block of scales is a row, and its scale is the one of the matrix.
namespace lockstep::kernels {

absl::StatusOr<QuantizedMatrix> DecodeNvfp4(const ModuleTensors& tensors,
                                            const WeightScheme& scheme);

}  // namespace lockstep::kernels
