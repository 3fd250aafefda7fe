#include "kernels/gemm/plan/packed_check.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "common/status.h"
#include "kernels/activation/swiglu.h"
#include "kernels/device/cuda_status.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/packed_weights.h"
#include "kernels/gemm/tile/gemm_launch.h"

namespace lockstep::kernels {
namespace {

// One of each size of tiles, and some between them.
constexpr int64_t kRowCounts[] = {1, 2, 13, 24, 64, 100};
constexpr int64_t kMostRows = 100;
constexpr uint64_t kSeed = 20;

absl::StatusOr<DeviceBuffer> Matrix(int64_t num_rows, int64_t num_columns) {
  return DeviceBuffer::Create(static_cast<size_t>(num_rows * num_columns) * sizeof(BFloat16),
                              "self-check of packed weights");
}

class Check {
 public:
  Check(const CudaStream& stream, const WeightMatrix& weights)
      : stream_(stream), weights_(weights) {}

  absl::Status Prepare() {
    LOCKSTEP_ASSIGN_OR_RETURN(expanded_, Matrix(weights_.n, weights_.k));
    LOCKSTEP_ASSIGN_OR_RETURN(input_, Matrix(kMostRows, weights_.k));
    LOCKSTEP_ASSIGN_OR_RETURN(product_, Matrix(kMostRows, weights_.n));
    LOCKSTEP_ASSIGN_OR_RETURN(expected_, Matrix(kMostRows, weights_.n));
    LOCKSTEP_ASSIGN_OR_RETURN(actual_, Matrix(kMostRows, weights_.n));
    LOCKSTEP_ASSIGN_OR_RETURN(difference_, DeviceBuffer::Create(sizeof(unsigned long long)));
    LOCKSTEP_RETURN_IF_ERROR(
        FillWithOutliers(stream_, input_.data<BFloat16>(), kMostRows * weights_.k, kSeed));
    return weights_.packed->Expand(stream_, expanded_.data<BFloat16>());
  }

  absl::Status Run(int64_t num_rows) {
    GemmParams reference = Params(num_rows, product_);
    reference.weights.packed = nullptr;
    reference.weights.data = expanded_.data<BFloat16>();
    LOCKSTEP_RETURN_IF_ERROR(LaunchReferenceGemm(stream_, reference));
    LOCKSTEP_RETURN_IF_ERROR(weights_.packed->Multiply(stream_, Params(num_rows, actual_)));
    LOCKSTEP_RETURN_IF_ERROR(Compare(product_, num_rows, weights_.n, "products"));
    if (!weights_.packed->HasSwiGlu()) return absl::OkStatus();
    const int64_t size = weights_.n / 2;
    GemmParams gated = Params(num_rows, actual_);
    gated.output_stride = size;
    LOCKSTEP_RETURN_IF_ERROR(SwiGlu(stream_, {.gate_up = product_.data<BFloat16>(),
                                              .output = expected_.data<BFloat16>(),
                                              .num_rows = num_rows,
                                              .size = size}));
    LOCKSTEP_RETURN_IF_ERROR(weights_.packed->MultiplySwiGlu(stream_, gated));
    return Compare(expected_, num_rows, size, "products with SwiGLU");
  }

 private:
  GemmParams Params(int64_t num_rows, const DeviceBuffer& output) const {
    return {.input = input_.data<BFloat16>(),
            .input_stride = weights_.k,
            .weights = weights_,
            .output = output.data<BFloat16>(),
            .output_stride = weights_.n,
            .num_rows = num_rows};
  }

  absl::Status Compare(const DeviceBuffer& expected, int64_t num_rows, int64_t num_columns,
                       const char* what) {
    auto* const difference = difference_.data<unsigned long long>();
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaMemsetAsync(difference, 0xFF, sizeof(*difference), stream_.handle));
    LOCKSTEP_RETURN_IF_ERROR(FindFirstDifference(stream_,
                                                 {.expected = expected.data(),
                                                  .actual = actual_.data(),
                                                  .num_elements = num_rows * num_columns,
                                                  .element_bytes = sizeof(BFloat16)},
                                                 difference));
    unsigned long long first = 0;
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(&first, difference, sizeof(first), cudaMemcpyDeviceToHost, stream_.handle));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream_.handle));
    if (first == ~0ull) return absl::OkStatus();
    const auto element = static_cast<int64_t>(first);
    return Internal(
        "self-check of {} of weights in {}: with n = {}, k = {} and {} rows, output {} of row {} "
        "is not that of the expanded weights",
        what, weights_.packed->storage_name(), weights_.n, weights_.k, num_rows,
        element % num_columns, element / num_columns);
  }

  const CudaStream& stream_;
  const WeightMatrix& weights_;
  DeviceBuffer expanded_, input_, product_, expected_, actual_, difference_;
};

}  // namespace

absl::Status CheckPackedProducts(const CudaStream& stream, const WeightMatrix& weights,
                                 int64_t max_rows) {
  Check check(stream, weights);
  LOCKSTEP_RETURN_IF_ERROR(check.Prepare());
  for (const int64_t num_rows : kRowCounts) {
    if (num_rows <= max_rows) LOCKSTEP_RETURN_IF_ERROR(check.Run(num_rows));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kernels
