#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "kernels/formats/fp8_activations/fp8_gemm.h"
#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// The scales of a matrix, as Fp8Gemm takes them.
struct Fp8Scales {
  Fp8ScaleLayout layout = Fp8ScaleLayout::kBlock;
  std::vector<float> values;
};

// INVALID_ARGUMENT, saying why, unless the matrix has E4M3 codes, k is a multiple of 16, and either
// every row has one scale, or 128 rows and 128 columns have one.
absl::StatusOr<Fp8Scales> Fp8ScalesOf(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
