#pragma once

#include <cstdint>

#include "kernels/core/bfloat16.h"

namespace lockstep::kernels {

class PackedWeights;

// The weights of a product, [n, k]: in bf16, or packed. Exactly one of the two pointers is set, and
// the matrix owns neither. The order of bf16 is the backend's: panels on the CPU
// (kernels/gemm/packed_matrix.h), row-major on the GPU.
struct WeightMatrix {
  const BFloat16* data = nullptr;
  const PackedWeights* packed = nullptr;  // kernels/gemm/packed_weights.h
  int64_t n = 0;                          // outputs
  int64_t k = 0;                          // inputs, even

  bool exists() const { return n > 0; }
};

}  // namespace lockstep::kernels
