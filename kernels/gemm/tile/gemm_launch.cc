#include "kernels/gemm/tile/gemm_launch.h"

#include <absl/status/statusor.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "common/status.h"
#include "kernels/core/alignment.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/tensor_map.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile/gemm_task.h"

namespace lockstep::kernels {
namespace {

struct Matrix {
  const BFloat16* data;
  int64_t num_rows;
  int64_t num_columns;
  int64_t row_stride;  // elements
};

// Which rows one copy brings.
enum class CopiedRows {
  kNeighbours,
  kOfBothHalves,  // of the matrix: first those of one, then those of the other
  kInterleaved,   // of both halves, kInterleavedRows of each in turn
};

// What one copy brings: blocks of box_rows x 64 elements. Of both halves: box_rows of each.
struct CopyShape {
  int box_rows = 0;
  int num_blocks = 0;  // 0: one, and the map knows no blocks
  CopiedRows rows = CopiedRows::kNeighbours;
};

absl::Status MapMatrix(const Matrix& matrix, const CopyShape& copy, CUtensorMap* map) {
  const int64_t rows = copy.rows == CopiedRows::kNeighbours ? matrix.num_rows : matrix.num_rows / 2;
  const int64_t row_bytes = matrix.row_stride * static_cast<int64_t>(sizeof(BFloat16));
  const bool has_blocks = copy.num_blocks > 0;
  TensorDimension dimensions[5];
  size_t count = 0;
  dimensions[count++] = {has_blocks ? kBlockColumns : matrix.num_columns, 0, kBlockColumns};
  if (copy.rows == CopiedRows::kInterleaved) {
    dimensions[count++] = {kInterleavedRows, row_bytes, kInterleavedRows};
    dimensions[count++] = {2, rows * row_bytes, 2};
    dimensions[count++] = {rows / kInterleavedRows, kInterleavedRows * row_bytes,
                           copy.box_rows / kInterleavedRows};
  } else {
    dimensions[count++] = {rows, row_bytes, copy.box_rows};
    if (copy.rows == CopiedRows::kOfBothHalves) dimensions[count++] = {2, rows * row_bytes, 2};
  }
  if (has_blocks) {
    dimensions[count++] = {matrix.num_columns / kBlockColumns, kBlockRowBytes, copy.num_blocks};
  }
  const absl::Status status = EncodeTensorMap(matrix.data, std::span(dimensions, count), map);
  if (status.ok()) return status;
  return Annotate(status, fmt::format("a {} x {} matrix with row stride {}", matrix.num_rows,
                                      matrix.num_columns, matrix.row_stride));
}

GemmTask MakeTask(const GemmParams& params, GemmEpilogue epilogue, const GemmTiling& tiling) {
  const int64_t columns_per_weight_row = epilogue == GemmEpilogue::kSwiGlu ? 2 : 1;
  GemmTask task = OutputTask(params, params.weights.n / columns_per_weight_row);
  task.num_blocks = static_cast<int>((params.weights.k + kBlockColumns - 1) / kBlockColumns);
  task.tile_rows = tiling.input_rows;
  task.fetched_rows = GemmFetchedRows(tiling, params.num_rows);
  const int columns = static_cast<int>(tiling.weight_rows / columns_per_weight_row);
  task.num_column_tiles = (task.n + columns - 1) / columns;
  task.num_row_tiles = (task.num_rows + tiling.input_rows - 1) / tiling.input_rows;
  constexpr int kRowsInCache = 2048;  // 16 MB of input at k = 4096
  task.group_row_tiles = std::clamp(kRowsInCache / tiling.input_rows, 1, task.num_row_tiles);
  task.num_tiles = task.num_column_tiles * task.num_row_tiles;
  task.weights_pass_once = task.num_row_tiles == 1;
  task.copies_slabs = params.weights.k % kBlockColumns == 0;
  task.num_stages = tiling.num_stages;
  task.held_input = tiling.held_input_blocks > 0 ? params.input : nullptr;
  return task;
}

// For kernels that walk over all elements.
const dim3 kSweepGrid(528);
const dim3 kSweepBlock(256);

absl::Status Fill(const CudaStream& stream, FillTask task) {
  void* arguments[] = {&task};
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaLaunchKernel(FindFillKernel(), kSweepGrid, kSweepBlock, arguments, 0, stream.handle));
  return absl::OkStatus();
}

bool HasGelu(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::kGeluTanh || epilogue == GemmEpilogue::kGeluErf;
}

absl::Status RunOwnGemm(const CudaStream& stream, const GemmParams& params, GemmEpilogue epilogue) {
  LOCKSTEP_RETURN_IF_ERROR(CheckGemmParams(params, epilogue));
  if (params.num_rows == 0) return absl::OkStatus();
  const GemmProblem problem = {.n = params.weights.n,
                               .k = params.weights.k,
                               .num_rows = params.num_rows,
                               .gated = epilogue == GemmEpilogue::kSwiGlu};
  return LaunchGemm(stream, params, epilogue,
                    ChooseGemmTiling(problem, stream.num_multiprocessors));
}

}  // namespace

absl::Status CheckGemmParams(const GemmParams& params, GemmEpilogue epilogue) {
  constexpr int64_t kAlignment = 8;  // elements, of what the copy engine reads
  const WeightMatrix& weights = params.weights;
  if (weights.k <= 0 || weights.n <= 0 || weights.k % kAlignment != 0 ||
      params.input_stride % kAlignment != 0) {
    return InvalidArgument(
        "GEMM of {} x {} weights, input stride {}: sizes must be positive, k and the stride "
        "multiples of {}",
        weights.n, weights.k, params.input_stride, kAlignment);
  }
  if (weights.data == nullptr) return InvalidArgument("GEMM: the weights are not in bf16");
  if (!IsAligned(weights.data, 16) || !IsAligned(params.input, 16)) {
    return InvalidArgument("GEMM: weights and input must be aligned to 16 bytes");
  }
  if ((params.output == nullptr) == (params.output_f32 == nullptr)) {
    return InvalidArgument("GEMM: exactly one of the two outputs must be set");
  }
  if (epilogue == GemmEpilogue::kSwiGlu &&
      (weights.n % (2 * kInterleavedRows) != 0 || params.output == nullptr)) {
    return InvalidArgument(
        "GEMM with SwiGLU: {} weight rows, which must be a multiple of {}; output in bf16",
        weights.n, 2 * kInterleavedRows);
  }
  if (HasGelu(epilogue) && params.output == nullptr) {
    return InvalidArgument("GEMM with GELU: the output must be bf16");
  }
  return absl::OkStatus();
}

GemmTask OutputTask(const GemmParams& params, int64_t n) {
  GemmTask task = {};
  task.bias = params.bias;
  task.output = params.output;
  task.output_f32 = params.output_f32;
  task.output_stride = params.output_stride;
  task.num_rows = static_cast<int>(params.num_rows);
  task.n = static_cast<int>(n);
  task.paired_stores = params.output_stride % 2 == 0 &&
                       (params.output != nullptr ? IsAligned(params.output, 2 * sizeof(BFloat16))
                                                 : IsAligned(params.output_f32, 2 * sizeof(float)));
  // The threads of a row must agree on it.
  task.wide_stores = params.output != nullptr && task.n % 8 == 0 && params.output_stride % 8 == 0 &&
                     IsAligned(params.output, 8 * sizeof(BFloat16));
  return task;
}

absl::Status LaunchGemm(const CudaStream& stream, const GemmParams& params, GemmEpilogue epilogue,
                        const GemmTiling& tiling) {
  const GemmKernelEntry kernel = FindGemmKernel(tiling, epilogue);
  if (kernel.function == nullptr) {
    return InvalidArgument(
        "GEMM: no kernel for tiles of {} weight rows and {} input rows by {}", tiling.weight_rows,
        tiling.input_rows,
        tiling.unit == GemmUnit::kSwapped ? "a swapped warpgroup" : "warpgroups");
  }
  if (tiling.held_input_blocks > 0 &&
      tiling.held_input_blocks !=
          GemmHeldInputBlocks(tiling, {.k = params.weights.k, .num_rows = params.num_rows})) {
    return InvalidArgument(
        "GEMM: {} rows with k = {} are not one row of {} columns, in whole stages, to hold",
        params.num_rows, params.weights.k, tiling.held_input_blocks * kBlockColumns);
  }
  GemmTask task = MakeTask(params, epilogue, tiling);
  const bool gated = epilogue == GemmEpilogue::kSwiGlu;
  CopiedRows copied_rows = CopiedRows::kNeighbours;
  if (gated && tiling.unit == GemmUnit::kSwapped) {
    copied_rows = CopiedRows::kInterleaved;
  } else if (gated && task.copies_slabs) {
    copied_rows = CopiedRows::kOfBothHalves;
  }
  CUtensorMap input_map;
  CUtensorMap weight_map;
  const WeightMatrix& weights = params.weights;
  const int copied_blocks =
      task.copies_slabs ? GemmSlabBlocks(tiling.unit, tiling.weight_rows, tiling.input_rows) : 0;
  LOCKSTEP_RETURN_IF_ERROR(
      MapMatrix({params.input, params.num_rows, weights.k, params.input_stride},
                {.box_rows = task.fetched_rows, .num_blocks = copied_blocks}, &input_map));
  LOCKSTEP_RETURN_IF_ERROR(MapMatrix({weights.data, weights.n, weights.k, weights.k},
                                     {.box_rows = tiling.weight_rows / (gated ? 2 : 1),
                                      .num_blocks = copied_blocks,
                                      .rows = copied_rows},
                                     &weight_map));
  const int shared_bytes = static_cast<int>(GemmSharedBytes(tiling, params.num_rows));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaFuncSetAttribute(
      kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));

  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(std::min(task.num_tiles, stream.num_multiprocessors)));
  config.blockDim = dim3(static_cast<unsigned>(kernel.num_threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream.handle;
  config.attrs = &overlap;
  config.numAttrs = stream.overlap_launches ? 1 : 0;
  void* arguments[] = {&input_map, &weight_map, &task};
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaLaunchKernelExC(&config, kernel.function, arguments));
  return absl::OkStatus();
}

absl::Status LaunchReferenceGemm(const CudaStream& stream, const GemmParams& params) {
  ReferenceGemmTask task = {.input = params.input,
                            .input_stride = params.input_stride,
                            .weights = params.weights.data,
                            .n = params.weights.n,
                            .k = params.weights.k,
                            .bias = params.bias,
                            .output = params.output,
                            .output_f32 = params.output_f32,
                            .output_stride = params.output_stride,
                            .num_rows = params.num_rows};
  const dim3 grid(static_cast<unsigned>((task.num_rows + 15) / 16),
                  static_cast<unsigned>((task.n + 7) / 8));
  void* arguments[] = {&task};
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaLaunchKernel(FindReferenceGemmKernel(), grid, dim3(32), arguments, 0, stream.handle));
  return absl::OkStatus();
}

absl::Status FillWithOutliers(const CudaStream& stream, BFloat16* values, int64_t count,
                              uint64_t seed) {
  return Fill(stream, {.values = values, .values_f32 = nullptr, .count = count, .seed = seed});
}
absl::Status FillWithOutliers(const CudaStream& stream, float* values, int64_t count,
                              uint64_t seed) {
  return Fill(stream, {.values = nullptr, .values_f32 = values, .count = count, .seed = seed});
}

absl::Status FindFirstDifference(const CudaStream& stream, const BitComparison& comparison,
                                 unsigned long long* first) {
  BitComparison task = comparison;
  void* arguments[] = {&task, &first};
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaLaunchKernel(FindCompareKernel(), kSweepGrid, kSweepBlock, arguments, 0, stream.handle));
  return absl::OkStatus();
}

absl::Status Gemm(const CudaStream& stream, const GemmParams& params) {
  return RunOwnGemm(stream, params, GemmEpilogue::kPlain);
}

absl::Status GemmSwiGlu(const CudaStream& stream, const GemmParams& params) {
  return RunOwnGemm(stream, params, GemmEpilogue::kSwiGlu);
}

absl::Status GemmGelu(const CudaStream& stream, const GemmParams& params, GeluForm form) {
  if (params.num_rows > kGemmGeluMaxRows) {
    return InvalidArgument("GEMM with GELU: {} rows, at most {}", params.num_rows,
                           kGemmGeluMaxRows);
  }
  return RunOwnGemm(stream, params,
                    form == GeluForm::kTanh ? GemmEpilogue::kGeluTanh : GemmEpilogue::kGeluErf);
}

}  // namespace lockstep::kernels
