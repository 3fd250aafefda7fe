#pragma once

#include <absl/status/statusor.h>

#include "common/model_files/gguf.h"
#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// Types of GGUF that become codes. The others are converted to bf16 at load (kernels/quant): their
// blocks have two levels of scales, or a minimum for each group, which no kind of code has yet.
bool HasCodes(GgmlType type);

// Q8_0: blocks of 34 bytes, an F16 scale and 32 signed codes. Scales stay as they are, in fp32: the
// values are those of kernels::Dequantize, rounded to bf16. `tensor`: a matrix of a type that
// HasCodes says yes to.
absl::StatusOr<QuantizedMatrix> DecodeGgufCodes(const GgufTensor& tensor);

}  // namespace lockstep::kernels
