#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/device/cuda_stream.h"
#include "kernels/gemm/weight_matrix.h"

namespace lockstep::kernels {

// Start-up check of packed weights on the GPU: their products with random rows with outliers,
// compared bit for bit with a plain chain of mma.m16n8k16 over the expanded weights, and SwiGLU of
// them if they have a kernel for it. `max_rows`: that the model computes. INTERNAL naming the first
// output that differs. RESOURCE_EXHAUSTED when there is no memory for the expanded weights, which
// is given back at the end.
absl::Status CheckPackedProducts(const CudaStream& stream, const WeightMatrix& weights,
                                 int64_t max_rows);

}  // namespace lockstep::kernels
