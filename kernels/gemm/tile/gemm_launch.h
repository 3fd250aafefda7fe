#pragma once

#include <absl/status/status.h>

#include "kernels/device/cuda_stream.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_task.h"
#include "kernels/gemm/tile/gemm_tiling.h"

namespace lockstep::kernels {

// INVALID_ARGUMENT unless our kernel and cuBLASLt can take the operands: see Gemm in gemm.h.
absl::Status CheckGemmParams(const GemmParams& params, GemmEpilogue epilogue);

// The fields of a task that say what becomes of the sums: bias, outputs and how they are stored.
// `n`: columns of the output.
GemmTask OutputTask(const GemmParams& params, int64_t n);

// Enqueues our kernel with a given tiling; Gemm, GemmSwiGlu and GemmGelu choose one. Every tiling
// gives the same bits. INVALID_ARGUMENT for a tiling that is not compiled.
absl::Status LaunchGemm(const CudaStream& stream, const GemmParams& params, GemmEpilogue epilogue,
                        const GemmTiling& tiling);

// The canonical dot product at its plainest, for checks: one warp per 16 x 8 outputs, a chain of
// mma.m16n8k16 over ascending k. Any k, any strides.
absl::Status LaunchReferenceGemm(const CudaStream& stream, const GemmParams& params);

// About normal values, every 61st 50 times as large.
absl::Status FillWithOutliers(const CudaStream& stream, BFloat16* values, int64_t count,
                              uint64_t seed);
absl::Status FillWithOutliers(const CudaStream& stream, float* values, int64_t count,
                              uint64_t seed);
// Lowers *first, on the device, to the index of the first element with other bits.
absl::Status FindFirstDifference(const CudaStream& stream, const BitComparison& comparison,
                                 unsigned long long* first);

}  // namespace lockstep::kernels
