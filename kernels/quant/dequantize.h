#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <span>

#include "common/model_files/gguf.h"

namespace lockstep::kernels {

// True for F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K.
bool CanDequantize(GgmlType type);

// GGUF blocks to fp32, in the file's order of elements. Layouts and formulas are those of ggml
// (github.com/ggml-org/ggml, ggml-common.h and ggml-quants.c): every product and sum is rounded
// once, in the order written there, so the result equals ggml's bit for bit.
//   blocks: whole blocks of `type`, no alignment needed
//   values: [num_blocks * elements of a block]
// INVALID_ARGUMENT naming the type and the sizes when they do not fit, UNIMPLEMENTED for another
// type.
absl::Status Dequantize(GgmlType type, std::span<const std::byte> blocks, std::span<float> values);

}  // namespace lockstep::kernels
