#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/core/divide_up.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/tensor_map.h"
#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/fp8_activations/fp8_task.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/gemm/tile/gemm_launch.h"

namespace lockstep::kernels {
namespace {

absl::Status CheckParams(const Fp8GemmParams& params) {
  constexpr int64_t kAlignment = 16;  // of rows, for the copy engine
  const Fp8Weights& weights = params.weights;
  if (weights.k <= 0 || weights.n <= 0 || weights.k % kAlignment != 0) {
    return InvalidArgument(
        "FP8 product of {} x {} weights: sizes must be positive, k a multiple of {}", weights.n,
        weights.k, kAlignment);
  }
  if (!IsAligned(weights.codes, kAlignment) || !IsAligned(params.codes, kAlignment) ||
      !IsAligned(params.scales, kAlignment)) {
    return InvalidArgument(
        "FP8 product: codes, and scales of the input, must be aligned to 16 bytes");
  }
  if (weights.codes == nullptr || weights.scales == nullptr || params.codes == nullptr ||
      params.scales == nullptr) {
    return InvalidArgument("FP8 product: codes and scales of input and weights must be set");
  }
  if ((params.output == nullptr) == (params.output_f32 == nullptr)) {
    return InvalidArgument("FP8 product: exactly one of the two outputs must be set");
  }
  return absl::OkStatus();
}

struct Codes {
  const uint8_t* data;
  int64_t num_rows;
  int64_t k;
};
// What one copy brings: some rows of 128 columns, or of `slab_blocks` times as many.
struct CopyShape {
  int rows;
  int slab_blocks;  // 0: one, and the map knows no blocks
};

absl::Status MapCodes(const Codes& codes, const CopyShape& copy, CUtensorMap* map) {
  const bool has_blocks = copy.slab_blocks > 0;
  TensorDimension dimensions[3];
  size_t count = 0;
  dimensions[count++] = {has_blocks ? kFp8BlockColumns : codes.k, 0, kFp8RowBytes};
  dimensions[count++] = {codes.num_rows, codes.k, copy.rows};
  if (has_blocks) {
    dimensions[count++] = {NumFp8Blocks(codes.k), kFp8BlockColumns, copy.slab_blocks};
  }
  const absl::Status status =
      EncodeTensorMap(codes.data, std::span(dimensions, count), map, TensorElement::kByte);
  if (status.ok()) return status;
  return Annotate(status, fmt::format("{} x {} codes", codes.num_rows, codes.k));
}

Fp8Task MakeTask(const Fp8GemmParams& params, const Fp8Tiling& tiling) {
  const Fp8Weights& weights = params.weights;
  const bool has_block_scales = weights.layout == Fp8ScaleLayout::kBlock;
  Fp8Task task = {};
  task.output = OutputTask({.weights = {},
                            .bias = params.bias,
                            .output = params.output,
                            .output_f32 = params.output_f32,
                            .output_stride = params.output_stride,
                            .num_rows = params.num_rows},
                           weights.n);
  task.num_blocks = static_cast<int>(NumFp8Blocks(weights.k));
  task.input_scales = params.scales;
  task.input_scale_stride = static_cast<int>(ActivationScaleStride(params.num_rows));
  task.weight_scales = weights.scales;
  task.weight_scale_shift = has_block_scales ? 7 : 0;
  task.weight_scale_row_stride = has_block_scales ? task.num_blocks : 1;
  task.weight_scale_block_stride = has_block_scales ? 1 : 0;
  task.num_stages = tiling.num_stages;
  if (tiling.unit == Fp8Unit::kFewRows) {
    task.tile_weight_rows = tiling.weight_rows;
    task.fetched_rows =
        Fp8FetchedRows({.n = weights.n, .k = weights.k, .num_rows = params.num_rows}, tiling);
    task.copies_slabs = weights.k % kFp8BlockColumns == 0;
    task.num_tiles = static_cast<int>(DivideUp(weights.n, tiling.weight_rows));
    return task;
  }
  constexpr int kRowsInCache = 2048;  // 8 MB of input at k = 4096
  task.num_row_tiles = static_cast<int>(DivideUp(params.num_rows, tiling.input_rows));
  task.num_column_tiles =
      static_cast<int>(DivideUp(weights.n, kFp8TileColumns * tiling.cluster_blocks));
  task.group_row_tiles = std::clamp(kRowsInCache / tiling.input_rows, 1, task.num_row_tiles);
  task.num_tiles = task.num_row_tiles * task.num_column_tiles;
  return task;
}

absl::Status CheckTiling(const Fp8Problem& problem, const Fp8Tiling& tiling) {
  const bool has_few_rows = tiling.unit == Fp8Unit::kFewRows;
  const bool is_compiled = has_few_rows
                               ? tiling.weight_rows >= 16 && tiling.weight_rows <= 128 &&
                                     tiling.weight_rows % 16 == 0 && tiling.cluster_blocks == 1
                               : tiling.weight_rows == kFp8TileColumns;
  if (!is_compiled || tiling.num_stages < 2) {
    return InvalidArgument("FP8 product: no kernel for tiles {}", DescribeFp8Tiling(tiling));
  }
  if (has_few_rows && problem.num_rows > tiling.input_rows) {
    return InvalidArgument("FP8 product: {} rows in tiles {}", problem.num_rows,
                           DescribeFp8Tiling(tiling));
  }
  if (Fp8SharedBytes(problem, tiling) > kMaxFp8SharedBytes) {
    return InvalidArgument("FP8 product of {} rows, k = {}: tiles {} do not fit", problem.num_rows,
                           problem.k, DescribeFp8Tiling(tiling));
  }
  return absl::OkStatus();
}

struct Fp8Launch {
  const void* kernel;
  int num_blocks;
  int num_threads;
  int shared_bytes;
  int cluster_blocks;
};

absl::Status LaunchKernel(const CudaStream& stream, const Fp8Launch& launch,
                          std::span<void*> arguments) {
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, launch.shared_bytes));
  cudaLaunchAttribute attributes[2] = {};
  unsigned num_attributes = 0;
  if (stream.overlap_launches) {
    attributes[num_attributes].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[num_attributes++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.cluster_blocks > 1) {
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes++].val.clusterDim = {
        .x = static_cast<unsigned>(launch.cluster_blocks), .y = 1, .z = 1};
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(launch.num_blocks));
  config.blockDim = dim3(static_cast<unsigned>(launch.num_threads));
  config.dynamicSmemBytes = static_cast<size_t>(launch.shared_bytes);
  config.stream = stream.handle;
  config.attrs = attributes;
  config.numAttrs = num_attributes;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaLaunchKernelExC(&config, launch.kernel, arguments.data()));
  return absl::OkStatus();
}

}  // namespace

absl::Status LaunchFp8Gemm(const CudaStream& stream, const Fp8GemmParams& params,
                           const Fp8Tiling& tiling) {
  LOCKSTEP_RETURN_IF_ERROR(CheckParams(params));
  if (params.num_rows == 0) return absl::OkStatus();
  const Fp8Weights& weights = params.weights;
  const Fp8Problem problem = {.n = weights.n, .k = weights.k, .num_rows = params.num_rows};
  LOCKSTEP_RETURN_IF_ERROR(CheckTiling(problem, tiling));
  const bool has_few_rows = tiling.unit == Fp8Unit::kFewRows;
  const void* const kernel = has_few_rows ? FindFp8FewRowsKernel(tiling.input_rows)
                                          : FindFp8ManyRowsKernel(tiling.input_rows, weights.layout,
                                                                  tiling.cluster_blocks);
  if (kernel == nullptr) {
    return InvalidArgument("FP8 product: no kernel for tiles {}", DescribeFp8Tiling(tiling));
  }
  Fp8Task task = MakeTask(params, tiling);
  const int slab_blocks = has_few_rows && task.copies_slabs ? Fp8SlabBlocks(tiling.input_rows) : 0;
  CUtensorMap input_map = {};
  CUtensorMap weight_map = {};
  const int input_box_rows =
      has_few_rows ? task.fetched_rows : tiling.input_rows / tiling.cluster_blocks;
  LOCKSTEP_RETURN_IF_ERROR(MapCodes({params.codes, params.num_rows, weights.k},
                                    {input_box_rows, slab_blocks}, &input_map));
  LOCKSTEP_RETURN_IF_ERROR(MapCodes({weights.codes, weights.n, weights.k},
                                    {tiling.weight_rows, slab_blocks}, &weight_map));
  const int groups = static_cast<int>(DivideUp(tiling.weight_rows, kFp8GroupRows));
  const int clusters =
      std::min(task.num_tiles, std::max(1, stream.num_multiprocessors / tiling.cluster_blocks));
  void* arguments[] = {&input_map, &weight_map, &task};
  return LaunchKernel(
      stream,
      {.kernel = kernel,
       .num_blocks = clusters * tiling.cluster_blocks,
       .num_threads = has_few_rows ? groups * 128 + Fp8ProducerThreads(tiling.input_rows)
                                   : kFp8ManyRowsThreads,
       .shared_bytes = static_cast<int>(Fp8SharedBytes(problem, tiling)),
       .cluster_blocks = tiling.cluster_blocks},
      arguments);
}

absl::Status Fp8Gemm(const CudaStream& stream, const Fp8GemmParams& params) {
  return LaunchFp8Gemm(
      stream, params,
      ChooseFp8Tiling({.n = params.weights.n, .k = params.weights.k, .num_rows = params.num_rows},
                      stream.num_multiprocessors));
}

}  // namespace lockstep::kernels
