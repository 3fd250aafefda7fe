#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>

#include "kernels/core/bfloat16.h"
#include "kernels/core/stream.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/gemm/gemm.h"

namespace lockstep::kernels {

// Weights [n, k] of a product that stay in the form of a quantised file. Each has a value in bf16
// (DequantizeRow in kernels/formats/quantized_matrix.h). Every product has the bits of the same
// product with these values, so nothing but speed and memory tells the two apart. Weights whose
// products take codes of the activations are the exception, and CanExpand() is false for them.
//
// A kind of storage is a class of its own. A backend calls the functions of its own stream; a class
// that has no kernel for it returns UNIMPLEMENTED there. In params, weights.packed is this object.
class PackedWeights {
 public:
  virtual ~PackedWeights() = default;

  virtual int64_t num_bytes() const = 0;
  // What a weight is stored as, for people: "Q4_K", or "Q4_K+Q6_K" where parts of the product
  // differ.
  virtual std::string storage_name() const = 0;

  // Gemm on the CPU (kernels/gemm/gemm.h).
  virtual absl::Status Multiply(const Stream& stream, const GemmParams& params) const;

  // Gemm on the GPU, best for few rows.
  virtual absl::Status Multiply(const CudaStream& stream, const GemmParams& params) const;
  // GemmSwiGlu on the GPU, where HasSwiGlu() says that there is a kernel for it.
  virtual bool HasSwiGlu() const { return false; }
  virtual absl::Status MultiplySwiGlu(const CudaStream& stream, const GemmParams& params) const;
  // False: the products are not those of the values, for any number of rows.
  virtual bool CanExpand() const { return true; }
  // The values, row-major [n, k], to memory of the GPU that is aligned to 16 bytes.
  virtual absl::Status Expand(const CudaStream& stream, BFloat16* output) const;
};

}  // namespace lockstep::kernels
