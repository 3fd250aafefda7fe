#pragma once

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>
#include <span>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/gemm/gemm.h"

// Packed weights of a product that consists of several parts, one below the other. Neighbours of
// one kind become one piece if possible.
namespace lockstep::kernels {

// Calls add(piece) for each piece, from the top. A stack of parts that `add` refuses with
// INVALID_ARGUMENT is added part by part. Returns the first error of `add` otherwise.
absl::Status AddPieces(std::span<const QuantizedMatrix> parts,
                       absl::FunctionRef<absl::Status(const QuantizedMatrix&)> add);

// The params of a piece: those of the whole product, for the outputs from `first_output` on.
template <typename PieceParams, typename Matrix>
PieceParams ParamsOfPiece(const GemmParams& params, const Matrix& matrix, int64_t first_output) {
  return {.input = params.input,
          .input_stride = params.input_stride,
          .weights = matrix,
          .bias = params.bias == nullptr ? nullptr : params.bias + first_output,
          .output = params.output == nullptr ? nullptr : params.output + first_output,
          .output_f32 = params.output_f32 == nullptr ? nullptr : params.output_f32 + first_output,
          .output_stride = params.output_stride,
          .num_rows = params.num_rows};
}

}  // namespace lockstep::kernels
