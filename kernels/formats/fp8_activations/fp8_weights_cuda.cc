#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/formats/fp8_activations/fp8_scales.h"
#include "kernels/formats/fp8_activations/fp8_weights.h"
#include "kernels/formats/fp8_activations/quantize_activations.h"
#include "kernels/formats/packed_pieces.h"
#include "kernels/gemm/tile/gemm_launch.h"

namespace lockstep::kernels {
namespace {

// The tiles of few rows, and those of more. Blocks in clusters are chosen here for some shapes
// only; fp8_schedules_cuda_test compares them for all.
constexpr int64_t kCheckedRows[] = {1, 2, 13, 24, 64, 100, 129, 300};
constexpr uint64_t kSeed = 21;

template <typename T>
absl::StatusOr<DeviceBuffer> Upload(const std::vector<T>& values) {
  LOCKSTEP_ASSIGN_OR_RETURN(DeviceBuffer buffer,
                            DeviceBuffer::Create(values.size() * sizeof(T), "FP8 weights"));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemcpy(buffer.data(), values.data(), buffer.num_bytes(), cudaMemcpyHostToDevice));
  return buffer;
}

absl::StatusOr<DeviceBuffer> CheckMatrix(int64_t num_rows, int64_t num_columns) {
  return DeviceBuffer::Create(static_cast<size_t>(num_rows * num_columns) * sizeof(BFloat16),
                              "self-check of FP8 weights");
}

}  // namespace

absl::StatusOr<Fp8Scratch> Fp8Scratch::Create(int64_t max_rows, int64_t max_k) {
  Fp8Scratch scratch;
  scratch.max_rows_ = max_rows;
  scratch.max_k_ = max_k;
  LOCKSTEP_ASSIGN_OR_RETURN(
      scratch.codes_,
      DeviceBuffer::Create(static_cast<size_t>(max_rows * max_k), "FP8 activations"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      scratch.scales_, DeviceBuffer::Create(static_cast<size_t>(NumFp8Blocks(max_k) *
                                                                ActivationScaleStride(max_rows)) *
                                                sizeof(float),
                                            "scales of FP8 activations"));
  return scratch;
}

absl::StatusOr<std::unique_ptr<Fp8ProductWeights>> Fp8ProductWeights::Create(
    std::span<const QuantizedMatrix> parts, const Fp8Scratch& scratch) {
  auto weights = std::make_unique<Fp8ProductWeights>(scratch);
  LOCKSTEP_RETURN_IF_ERROR(
      AddPieces(parts, [&weights](const QuantizedMatrix& matrix) { return weights->Add(matrix); }));
  return weights;
}

absl::Status Fp8ProductWeights::Add(const QuantizedMatrix& matrix) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Fp8Scales scales, Fp8ScalesOf(matrix));
  Piece piece;
  LOCKSTEP_ASSIGN_OR_RETURN(piece.codes, Upload(matrix.codes));
  LOCKSTEP_ASSIGN_OR_RETURN(piece.scales, Upload(scales.values));
  piece.matrix = {.codes = piece.codes.data<uint8_t>(),
                  .scales = piece.scales.data<float>(),
                  .layout = scales.layout,
                  .n = matrix.n,
                  .k = matrix.k};
  pieces_.push_back(std::move(piece));
  return absl::OkStatus();
}

int64_t Fp8ProductWeights::num_bytes() const {
  int64_t num_bytes = 0;
  for (const Piece& piece : pieces_) {
    num_bytes += static_cast<int64_t>(piece.codes.num_bytes() + piece.scales.num_bytes());
  }
  return num_bytes;
}

absl::Status Fp8ProductWeights::Multiply(const CudaStream& stream, const GemmParams& params) const {
  const int64_t k = params.weights.k;
  if (!scratch_.Holds(params.num_rows, k)) {
    return InvalidArgument("FP8 product: {} rows of {} columns are more than its scratch holds",
                           params.num_rows, k);
  }
  LOCKSTEP_RETURN_IF_ERROR(QuantizeActivations(stream, {.input = params.input,
                                                        .input_stride = params.input_stride,
                                                        .num_rows = params.num_rows,
                                                        .k = k,
                                                        .codes = scratch_.codes(),
                                                        .scales = scratch_.scales()}));
  int64_t first_output = 0;
  for (const Piece& piece : pieces_) {
    Fp8GemmParams product = {.codes = scratch_.codes(),
                             .scales = scratch_.scales(),
                             .weights = piece.matrix,
                             .output_stride = params.output_stride,
                             .num_rows = params.num_rows};
    if (params.bias != nullptr) product.bias = params.bias + first_output;
    if (params.output != nullptr) product.output = params.output + first_output;
    if (params.output_f32 != nullptr) product.output_f32 = params.output_f32 + first_output;
    LOCKSTEP_RETURN_IF_ERROR(Fp8Gemm(stream, product));
    first_output += piece.matrix.n;
  }
  return absl::OkStatus();
}

absl::Status CheckFp8Products(const CudaStream& stream, const WeightMatrix& weights,
                              int64_t max_rows) {
  const int64_t most_rows = std::min(max_rows, *std::ranges::max_element(kCheckedRows));
  LOCKSTEP_ASSIGN_OR_RETURN(const DeviceBuffer input, CheckMatrix(most_rows, weights.k));
  LOCKSTEP_ASSIGN_OR_RETURN(const DeviceBuffer expected, CheckMatrix(most_rows, weights.n));
  LOCKSTEP_ASSIGN_OR_RETURN(const DeviceBuffer actual, CheckMatrix(most_rows, weights.n));
  LOCKSTEP_ASSIGN_OR_RETURN(const DeviceBuffer difference,
                            DeviceBuffer::Create(sizeof(unsigned long long)));
  LOCKSTEP_RETURN_IF_ERROR(
      FillWithOutliers(stream, input.data<BFloat16>(), most_rows * weights.k, kSeed));
  GemmParams params = {.input = input.data<BFloat16>(),
                       .input_stride = weights.k,
                       .weights = weights,
                       .output = expected.data<BFloat16>(),
                       .output_stride = weights.n,
                       .num_rows = most_rows};
  LOCKSTEP_RETURN_IF_ERROR(weights.packed->Multiply(stream, params));
  params.output = actual.data<BFloat16>();
  for (const int64_t num_rows : kCheckedRows) {
    if (num_rows > most_rows) break;
    params.num_rows = num_rows;
    LOCKSTEP_RETURN_IF_ERROR(weights.packed->Multiply(stream, params));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(difference.data(), 0xFF, difference.num_bytes(), stream.handle));
    LOCKSTEP_RETURN_IF_ERROR(FindFirstDifference(stream,
                                                 {.expected = expected.data(),
                                                  .actual = actual.data(),
                                                  .num_elements = num_rows * weights.n,
                                                  .element_bytes = sizeof(BFloat16)},
                                                 difference.data<unsigned long long>()));
    unsigned long long first = 0;
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(&first, difference.data(), sizeof(first),
                                                  cudaMemcpyDeviceToHost, stream.handle));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.handle));
    if (first == ~0ull) continue;
    const auto element = static_cast<int64_t>(first);
    return Internal(
        "self-check of products with FP8 activations: with n = {}, k = {}, output {} of row {} has "
        "other bits in a batch of {} rows than in one of {}",
        weights.n, weights.k, element % weights.n, element / weights.n, num_rows, most_rows);
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
