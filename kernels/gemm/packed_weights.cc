#include "kernels/gemm/packed_weights.h"

#include "common/status.h"

namespace lockstep::kernels {
namespace {

absl::Status NoKernel(const PackedWeights& weights, const char* what) {
  return Unimplemented("{} of weights in {}", what, weights.storage_name());
}

}  // namespace

absl::Status PackedWeights::Multiply(const Stream&, const GemmParams&) const {
  return NoKernel(*this, "products on the CPU");
}
absl::Status PackedWeights::Multiply(const CudaStream&, const GemmParams&) const {
  return NoKernel(*this, "products on the GPU");
}
absl::Status PackedWeights::MultiplySwiGlu(const CudaStream&, const GemmParams&) const {
  return NoKernel(*this, "products with SwiGLU on the GPU");
}
absl::Status PackedWeights::Expand(const CudaStream&, BFloat16*) const {
  return NoKernel(*this, "expansion on the GPU");
}

}  // namespace lockstep::kernels
