#pragma once

#include <absl/status/statusor.h>

#include "common/model_files/gguf.h"
#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// Types of GGUF that become codes: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K.
bool HasCodes(GgmlType type);

// The codes and scales as the file has them; F16 becomes fp32. The values are those of
// kernels::Dequantize, rounded to bf16, but 0 is always +0.
//   Q8_0, Q4_0, Q5_0: kInt8, kInt4 and kInt5 with a scale for 32 columns.
//   Q4_1, Q5_1: kInt4Min and kInt5Min. The file adds its minimum, so its sign changes.
//   Q4_K, Q5_K: kInt4Min and kInt5Min with 32 columns in a group, 256 in a block.
//   Q6_K: kInt6 with 16 columns in a group, 256 in a block.
// `tensor`: a matrix of a type that HasCodes says yes to.
absl::StatusOr<QuantizedMatrix> DecodeGgufCodes(const GgufTensor& tensor);

}  // namespace lockstep::kernels
