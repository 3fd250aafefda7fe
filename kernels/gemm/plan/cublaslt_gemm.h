#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cublasLt.h>

#include <memory>
#include <vector>

#include "kernels/device/cuda_stream.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/gemm.h"

namespace lockstep::kernels {

struct CublasLtPlan {
  cublasLtMatmulAlgo_t algorithm = {};
  bool splits_k = false;
};

// Which of cuBLASLt's algorithms may be used: an algorithm that splits K breaks the canonical dot
// product.
enum class SplitK { kNever, kAllowed };

// cuBLASLt as one way to compute a GEMM: its handle, and a workspace of fixed size, so that one
// stream may use it at a time.
class CublasLtGemm {
 public:
  static absl::StatusOr<std::unique_ptr<CublasLtGemm>> Create();
  ~CublasLtGemm();
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;

  // What cuBLASLt's heuristics propose for these operands, best first, at most max_plans; none when
  // it cannot compute them. A plan serves any num_rows, best near the one given.
  absl::StatusOr<std::vector<CublasLtPlan>> FindPlans(const GemmParams& params, SplitK split_k,
                                                      int max_plans) const;
  absl::Status Run(const CudaStream& stream, const GemmParams& params,
                   const CublasLtPlan& plan) const;

 private:
  CublasLtGemm() = default;

  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
};

}  // namespace lockstep::kernels
