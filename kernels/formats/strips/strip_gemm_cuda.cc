#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "common/check.h"
#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/core/divide_up.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/tensor_map.h"
#include "kernels/formats/strips/strip_gemm.h"
#include "kernels/formats/strips/strip_kernel_table.h"
#include "kernels/formats/strips/strip_task.h"
#include "kernels/gemm/tile/gemm_launch.h"

namespace lockstep::kernels {
namespace {

StripKernels KernelsOf(StripCodec codec) {
  switch (codec) {
    case StripCodec::kInt4Group128:
      return Int4Group128Kernels();
    case StripCodec::kInt4Group128Zeros:
      return Int4Group128ZerosKernels();
    case StripCodec::kInt4Group32:
      return Int4Group32Kernels();
    case StripCodec::kInt4Group32Zeros:
      return Int4Group32ZerosKernels();
    case StripCodec::kInt8Group128:
      return Int8Group128Kernels();
    case StripCodec::kInt8Group32:
      return Int8Group32Kernels();
    case StripCodec::kInt8Group128Zeros:
      return Int8Group128ZerosKernels();
    case StripCodec::kInt8Group32Zeros:
      return Int8Group32ZerosKernels();
    case StripCodec::kFp8Group128:
      return Fp8Group128Kernels();
    case StripCodec::kQ4_0:
      return Q4_0Kernels();
    case StripCodec::kQ4_1:
      return Q4_1Kernels();
    case StripCodec::kQ5_0:
      return Q5_0Kernels();
    case StripCodec::kQ5_1:
      return Q5_1Kernels();
    case StripCodec::kQ4_K:
      return Q4_KKernels();
    case StripCodec::kQ5_K:
      return Q5_KKernels();
    case StripCodec::kQ6_K:
      return Q6_KKernels();
    case StripCodec::kMxfp4:
      return Mxfp4Kernels();
    case StripCodec::kNvfp4:
      return Nvfp4Kernels();
  }
  LOCKSTEP_CHECK(false, "no such codec");
  return {};
}

absl::Status CheckParams(const StripGemmParams& params, bool gated) {
  constexpr int64_t kAlignment = 8;  // elements, of what the copy engine reads
  const StripMatrix& weights = params.weights;
  if (weights.k <= 0 || weights.n <= 0 || weights.k % kAlignment != 0 ||
      params.input_stride % kAlignment != 0) {
    return InvalidArgument(
        "product of {} x {} packed weights, input stride {}: sizes must be positive, k and the "
        "stride multiples of {}",
        weights.n, weights.k, params.input_stride, kAlignment);
  }
  if (!IsAligned(weights.data, 16) || !IsAligned(params.input, 16)) {
    return InvalidArgument("product of packed weights: weights and input must be aligned to 16");
  }
  if ((params.output == nullptr) == (params.output_f32 == nullptr)) {
    return InvalidArgument("product of packed weights: exactly one of the two outputs must be set");
  }
  if (gated && (weights.n % (2 * kBandRows) != 0 || params.output == nullptr)) {
    return InvalidArgument(
        "product of packed weights with SwiGLU: {} rows, which must be a multiple of {}; output in "
        "bf16",
        weights.n, 2 * kBandRows);
  }
  return absl::OkStatus();
}

StripProblem ProblemOf(const StripGemmParams& params, bool gated) {
  return {.codec = params.weights.codec,
          .n = params.weights.n,
          .k = params.weights.k,
          .num_rows = params.num_rows,
          .gated = gated};
}

StripTask MakeTask(const StripGemmParams& params, bool gated, const StripTiling& tiling) {
  const StripMatrix& weights = params.weights;
  StripTask task = {};
  task.output = OutputTask({.weights = {},
                            .bias = params.bias,
                            .output = params.output,
                            .output_f32 = params.output_f32,
                            .output_stride = params.output_stride,
                            .num_rows = params.num_rows},
                           gated ? weights.n / 2 : weights.n);
  task.strips = reinterpret_cast<const uint8_t*>(weights.data);
  task.rows = task.strips + weights.blocks_bytes();
  const int bands_of_one = gated ? 2 : 1;
  task.num_bands = static_cast<int>(weights.num_bands()) / bands_of_one;
  task.tile_bands = tiling.bands / bands_of_one;
  task.num_blocks = static_cast<int>(weights.num_blocks());
  task.num_stages = tiling.num_stages;
  task.fetched_rows = StripFetchedRows(ProblemOf(params, gated), tiling);
  task.num_row_tiles =
      static_cast<int>((params.num_rows + tiling.input_rows - 1) / tiling.input_rows);
  task.num_tiles = task.num_row_tiles * ((task.num_bands + task.tile_bands - 1) / task.tile_bands);
  task.magic = kBF16Magic;
  task.held_input = tiling.holds_input ? params.input : nullptr;
  return task;
}

absl::Status CheckTiling(const StripProblem& problem, const StripTiling& tiling) {
  if (tiling.bands < 1 || tiling.strips < 1 || tiling.warps() > kMaxTileWarps ||
      tiling.num_stages < 2 || (problem.gated && tiling.bands % 2 != 0)) {
    return InvalidArgument("packed weights: no tiles of {} bands with {} strips a warp, {} stages",
                           tiling.bands, tiling.strips, tiling.num_stages);
  }
  if (StripSharedBytes(problem, tiling) > kMaxStripSharedBytes) {
    return InvalidArgument("packed weights: tiles of {} bands and {} rows do not fit {} stages",
                           tiling.bands, tiling.input_rows, tiling.num_stages);
  }
  if (tiling.holds_input && !CanHoldInput(problem)) {
    return InvalidArgument("packed weights: {} rows of {} columns cannot be held", problem.num_rows,
                           problem.k);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchStripGemm(const CudaStream& stream, const StripGemmParams& params, bool gated,
                             const StripTiling& tiling) {
  LOCKSTEP_RETURN_IF_ERROR(CheckParams(params, gated));
  if (params.num_rows == 0) return absl::OkStatus();
  const StripProblem problem = ProblemOf(params, gated);
  LOCKSTEP_RETURN_IF_ERROR(CheckTiling(problem, tiling));
  const void* const kernel =
      KernelsOf(problem.codec)
          .find(tiling.strips, StripStageBlocks(problem.k, tiling.input_rows), tiling.input_rows,
                tiling.holds_input, gated);
  if (kernel == nullptr) {
    return InvalidArgument("packed weights: no kernel for {} strips a warp and {} input rows",
                           tiling.strips, tiling.input_rows);
  }
  StripTask task = MakeTask(params, gated, tiling);
  CUtensorMap input_map = {};
  if (!tiling.holds_input) {
    const TensorDimension dimensions[] = {
        {params.weights.k, 0, 64},
        {params.num_rows, params.input_stride * static_cast<int64_t>(sizeof(BFloat16)),
         task.fetched_rows}};
    LOCKSTEP_RETURN_IF_ERROR(EncodeTensorMap(params.input, dimensions, &input_map));
  }
  const int shared_bytes = static_cast<int>(StripSharedBytes(problem, tiling));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(std::min(task.num_tiles, stream.num_multiprocessors)));
  // Whole warpgroups, and the warp that fills the ring.
  config.blockDim = dim3(static_cast<unsigned>((tiling.warps() + 3) / 4 * 128 + 32));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream.handle;
  config.attrs = &overlap;
  config.numAttrs = stream.overlap_launches ? 1 : 0;
  void* arguments[] = {&input_map, &task};
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaLaunchKernelExC(&config, kernel, arguments));
  return absl::OkStatus();
}

absl::Status StripGemm(const CudaStream& stream, const StripGemmParams& params) {
  return LaunchStripGemm(
      stream, params, /*gated=*/false,
      ChooseStripTiling(ProblemOf(params, /*gated=*/false), stream.num_multiprocessors));
}

absl::Status StripGemmSwiGlu(const CudaStream& stream, const StripGemmParams& params) {
  return LaunchStripGemm(
      stream, params, /*gated=*/true,
      ChooseStripTiling(ProblemOf(params, /*gated=*/true), stream.num_multiprocessors));
}

absl::Status ExpandStrips(const CudaStream& stream, const StripMatrix& weights, BFloat16* output) {
  if (weights.k % 8 != 0 || !IsAligned(weights.data, 16) || !IsAligned(output, 16)) {
    return InvalidArgument(
        "expanding packed weights: k is {}, which must be a multiple of 8; weights and output must "
        "be aligned to 16 bytes",
        weights.k);
  }
  const auto* const strips = reinterpret_cast<const uint8_t*>(weights.data);
  ExpandTask task = {.strips = strips,
                     .rows = strips + weights.blocks_bytes(),
                     .output = output,
                     .n = weights.n,
                     .k = weights.k,
                     .num_strip_blocks = weights.num_strips() * weights.num_blocks(),
                     .num_blocks = weights.num_blocks()};
  void* arguments[] = {&task};
  const dim3 grid(static_cast<unsigned>(DivideUp(task.num_strip_blocks, kExpandWarps)));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaLaunchKernel(
      KernelsOf(weights.codec).expand, grid, dim3(kExpandWarps * 32), arguments, 0, stream.handle));
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
