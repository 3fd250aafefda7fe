#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/device/cuda_stream.h"
#include "kernels/gemm/gemm.h"

namespace lockstep::kernels {

class CublasLtGemm;
struct CublasLtPlan;

// A product that a model computes, and for how many rows at most.
struct GemmShape {
  int64_t n = 0;  // weight rows
  int64_t k = 0;
  bool has_bias = false;
  bool f32_output = false;
  int64_t max_rows = 0;

  template <typename H>
  friend H AbslHashValue(H h, const GemmShape& shape) {
    return H::combine(std::move(h), shape.n, shape.k, shape.has_bias, shape.f32_output,
                      shape.max_rows);
  }
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

// The GEMM of a worker on one device: our own kernel, or where it is faster cuBLASLt, restricted to
// algorithms with the bits of the canonical dot product. Which one runs changes no bit. Owns
// cuBLASLt's handle and workspace: used by one stream at a time.
class CudaGemm {
 public:
  static absl::StatusOr<std::unique_ptr<CudaGemm>> Create();
  ~CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  // Checks and plans a shape; for the time before serving: it allocates (2 bytes for each weight,
  // and the input and twice the output of max_rows rows), waits, and gives everything back. On
  // random data with outliers our kernel and every candidate of cuBLASLt are compared bit for bit
  // with a plain chain of mma.m16n8k16; a candidate that differs is refused. Of the others the
  // fastest is kept for its range of rows, if faster than our kernel. INTERNAL naming the first
  // output that differs when it is our kernel's.
  absl::Status Prepare(const CudaStream& stream, const GemmShape& shape);

  // Like Gemm in gemm.h, and only enqueues. A shape that was not prepared runs on our own kernel.
  absl::Status Run(const CudaStream& stream, const GemmParams& params) const;

  // Candidates of cuBLASLt whose bits differed, and plans kept, over all shapes.
  int num_refused_plans() const { return num_refused_plans_; }
  int num_plans() const { return static_cast<int>(plans_.size()); }

 private:
  struct Trial;

  CudaGemm();
  absl::Status CheckOwnKernel(const CudaStream& stream, const Trial& trial) const;
  absl::Status PlanRows(const CudaStream& stream, const Trial& trial, int64_t num_rows);

  std::unique_ptr<CublasLtGemm> library_;
  // Keyed by the shape with the upper end of a range of rows as max_rows.
  absl::flat_hash_map<GemmShape, CublasLtPlan> plans_;
  int num_refused_plans_ = 0;
};

}  // namespace lockstep::kernels
