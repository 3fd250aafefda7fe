#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/activation/gelu.h"
#include "kernels/activation/swiglu.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/device/device_buffer.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/plan/gemm_plan.h"

namespace lockstep::kernels {

class GemmTrial;

// A product that a model computes, and for how many rows at most.
struct GemmShape {
  int64_t n = 0;  // weight rows
  int64_t k = 0;
  bool has_bias = false;
  bool f32_output = false;
  bool gated = false;  // SwiGLU of it follows
  int64_t max_rows = 0;

  template <typename H>
  friend H AbslHashValue(H h, const GemmShape& shape) {
    return H::combine(std::move(h), shape.n, shape.k, shape.has_bias, shape.f32_output, shape.gated,
                      shape.max_rows);
  }
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

// The GEMM of a worker on one device: our own kernel, or where that is faster cuBLASLt, restricted
// to algorithms with the bits of the canonical dot product. Which one runs changes no bit. Owns
// cuBLASLt's handle and workspace: used by one stream at a time.
class CudaGemm {
 public:
  static absl::StatusOr<std::unique_ptr<CudaGemm>> Create();
  ~CudaGemm();
  CudaGemm(const CudaGemm&) = delete;
  CudaGemm& operator=(const CudaGemm&) = delete;

  // Plans and checks a shape, before serving. A gated shape is planned as a product, and then with
  // SwiGLU in it and after it; the faster way is kept.
  //
  // Plans: for every range of rows (gemm_row_ranges.h) the fastest of some tilings of our kernel
  // and some algorithms of cuBLASLt is kept, timed with weights that no cache holds.
  // Checks: our kernel and what is kept are compared bit for bit with a plain chain of
  // mma.m16n8k16, on random data with outliers. An algorithm that differs is refused, and the next
  // one has its turn. If our kernel differs: INTERNAL naming the first output. Kernels with GELU
  // are not checked here.
  // Memory, given back at the end: a few hundred MiB of weights, or all of the shape's if they are
  // more; of max_rows rows the input, twice the output and, if gated, the product.
  absl::Status Prepare(const CudaStream& stream, const GemmShape& shape);

  // Memory for packed matrices of at most so many elements, [n, k]: products of more than
  // kMaxPackedRows rows expand them to bf16 there. Packed matrices that are larger, as that of the
  // logits may be, are never expanded. RESOURCE_EXHAUSTED when device memory is short.
  absl::Status ReserveExpansion(int64_t max_elements);
  int64_t expansion_bytes() const { return static_cast<int64_t>(expansion_.num_bytes()); }

  // Like Gemm in gemm.h, also with packed weights, and only enqueues. A shape that was not prepared
  // runs on our own kernel.
  absl::Status Run(const CudaStream& stream, const GemmParams& params) const;

  // SwiGLU of a product with the weights [gate rows; up rows]: in one kernel or in two, with the
  // same bits. swiglu.gate_up is gate_up.output, which is written if there are two.
  absl::Status RunGated(const CudaStream& stream, const GemmParams& gate_up,
                        const SwiGluParams& swiglu) const;

  // GELU of a product: in one kernel or in two, with the same bits. gelu.input is product.output,
  // which is written if there are two.
  absl::Status RunGelu(const CudaStream& stream, const GemmParams& product,
                       const GeluParams& gelu) const;

  // Candidates of cuBLASLt that gave other bits, and plans kept, over all shapes.
  int num_refused_plans() const { return num_refused_plans_; }
  int num_plans() const { return static_cast<int>(plans_.size()); }

 private:
  CudaGemm();
  absl::Status CheckOwnKernel(const CudaStream& stream, const GemmTrial& trial) const;
  absl::Status PlanRows(const CudaStream& stream, const GemmTrial& trial, int64_t num_rows);
  absl::StatusOr<std::vector<GemmPlan>> Candidates(const CudaStream& stream, const GemmTrial& trial,
                                                   int64_t num_rows) const;
  absl::StatusOr<bool> Conforms(const CudaStream& stream, const GemmTrial& trial,
                                const GemmPlan& plan, int64_t num_rows) const;
  absl::Status RunPlan(const CudaStream& stream, const GemmParams& params, const GemmPlan& plan,
                       bool gated) const;
  const GemmPlan* FindPlan(const GemmParams& params, bool gated) const;
  // Whether the weights are packed and the product takes them as they are.
  bool StaysPacked(const GemmParams& params) const;
  // The same product with weights in bf16, in `expansion_`. Only what is enqueued on `stream`
  // afterwards may read them.
  absl::StatusOr<GemmParams> Expanded(const CudaStream& stream, const GemmParams& params) const;

  std::unique_ptr<CublasLtGemm> library_;
  // Keyed by the shape with the end of a range of rows as max_rows. None: the rule of our kernel;
  // gated, two kernels.
  absl::flat_hash_map<GemmShape, GemmPlan> plans_;
  int num_refused_plans_ = 0;
  DeviceBuffer expansion_;
};

// Up to so many rows, a product of packed weights is faster than to expand them and to multiply.
inline constexpr int64_t kMaxPackedRows = 384;

}  // namespace lockstep::kernels
