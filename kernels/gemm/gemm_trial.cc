#include "kernels/gemm/gemm_trial.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "common/status.h"
#include "kernels/device/cuda_status.h"
#include "kernels/gemm/gemm_launch.h"

namespace lockstep::kernels {
namespace {

constexpr int kTimedRuns = 5;

struct Event {
  Event() { cudaEventCreate(&handle); }
  ~Event() { cudaEventDestroy(handle); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t handle = nullptr;
};

}  // namespace

absl::StatusOr<GemmTrial> GemmTrial::Create(const CudaStream& stream, const GemmShape& shape) {
  GemmTrial trial;
  trial.shape_ = shape;
  const int64_t weight_elements = shape.n * shape.k;
  const int64_t input_elements = shape.max_rows * shape.k;
  const auto allocate = [](int64_t num_bytes) {
    return DeviceBuffer::Create(static_cast<size_t>(num_bytes));
  };
  constexpr int64_t kElementBytes = sizeof(BFloat16);
  LOCKSTEP_ASSIGN_OR_RETURN(trial.weights_, allocate(weight_elements * kElementBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.input_, allocate(input_elements * kElementBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.bias_, allocate(shape.n * int64_t{sizeof(float)}));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.expected_, allocate(trial.OutputBytes(shape.max_rows)));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.output_, allocate(trial.OutputBytes(shape.max_rows)));
  LOCKSTEP_ASSIGN_OR_RETURN(trial.difference_, allocate(sizeof(uint64_t)));
  LOCKSTEP_RETURN_IF_ERROR(
      FillWithOutliers(stream, trial.weights_.data<BFloat16>(), weight_elements, 1));
  LOCKSTEP_RETURN_IF_ERROR(
      FillWithOutliers(stream, trial.input_.data<BFloat16>(), input_elements, 2));
  LOCKSTEP_RETURN_IF_ERROR(FillWithOutliers(stream, trial.bias_.data<float>(), shape.n, 3));
  GemmParams reference = trial.Params(shape.max_rows);
  if (shape.f32_output) {
    reference.output_f32 = trial.expected_.data<float>();
  } else {
    reference.output = trial.expected_.data<BFloat16>();
  }
  LOCKSTEP_RETURN_IF_ERROR(LaunchReferenceGemm(stream, reference));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.handle));
  return trial;
}

int64_t GemmTrial::OutputBytes(int64_t num_rows) const {
  return num_rows * shape_.n *
         static_cast<int64_t>(shape_.f32_output ? sizeof(float) : sizeof(BFloat16));
}

GemmParams GemmTrial::Params(int64_t num_rows) const {
  return {.input = input_.data<BFloat16>(),
          .input_stride = shape_.k,
          .weights = {.data = weights_.data<BFloat16>(), .n = shape_.n, .k = shape_.k},
          .bias = shape_.has_bias ? bias_.data<float>() : nullptr,
          .output = shape_.f32_output ? nullptr : output_.data<BFloat16>(),
          .output_f32 = shape_.f32_output ? output_.data<float>() : nullptr,
          .output_stride = shape_.n,
          .num_rows = num_rows};
}

absl::StatusOr<std::optional<GemmTrial::Difference>> GemmTrial::FindDifference(
    const CudaStream& stream, const Implementation& implementation, int64_t num_rows) const {
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  const size_t num_bytes = static_cast<size_t>(OutputBytes(num_rows));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(output_.data(), 0xFF, num_bytes, stream.handle));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemsetAsync(difference_.data(), 0xFF, sizeof(uint64_t), stream.handle));
  LOCKSTEP_RETURN_IF_ERROR(implementation(stream, Params(num_rows)));
  const int64_t element_bytes = shape_.f32_output ? sizeof(float) : sizeof(BFloat16);
  LOCKSTEP_RETURN_IF_ERROR(FindFirstDifference(stream,
                                               {.expected = expected_.data(),
                                                .actual = output_.data(),
                                                .num_elements = num_rows * shape_.n,
                                                .element_bytes = element_bytes},
                                               difference_.data<unsigned long long>()));
  uint64_t at = kNone;
  LOCKSTEP_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(&at, difference_.data(), sizeof(at), cudaMemcpyDeviceToHost, stream.handle));
  LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream.handle));
  if (at == kNone) return std::nullopt;
  const int64_t index = static_cast<int64_t>(at);
  return Difference{.row = index / shape_.n, .column = index % shape_.n};
}

absl::StatusOr<float> GemmTrial::Milliseconds(const CudaStream& stream,
                                              const Implementation& implementation,
                                              int64_t num_rows) const {
  const Event start;
  const Event end;
  float fastest = std::numeric_limits<float>::max();
  for (int i = 0; i < kTimedRuns; ++i) {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventRecord(start.handle, stream.handle));
    LOCKSTEP_RETURN_IF_ERROR(implementation(stream, Params(num_rows)));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventRecord(end.handle, stream.handle));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventSynchronize(end.handle));
    float elapsed_ms = 0.0f;
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&elapsed_ms, start.handle, end.handle));
    fastest = std::min(fastest, elapsed_ms);
  }
  return fastest;
}

}  // namespace lockstep::kernels
