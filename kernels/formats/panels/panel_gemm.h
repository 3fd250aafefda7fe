#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "kernels/core/stream.h"
#include "kernels/formats/panels/panel_matrix.h"

namespace lockstep::kernels {

// The product that Gemm (kernels/gemm/gemm.h) computes, from packed weights. It has the bits of
// Gemm with the weights of DequantizeRow on the same instruction set. Few rows take the weights
// from the registers where they are decoded. For many, some columns of a panel are expanded once.
struct PanelGemmParams {
  const BFloat16* input = nullptr;  // [num_rows, k]
  int64_t input_stride = 0;         // elements between rows
  PanelMatrix weights;              // [n, k]
  const float* bias = nullptr;      // [n], or null
  BFloat16* output = nullptr;       // [num_rows, n]; exactly one of the two outputs is set
  float* output_f32 = nullptr;      // [num_rows, n], not rounded: for logits
  int64_t output_stride = 0;        // elements between rows
  int64_t num_rows = 0;
};

// INVALID_ARGUMENT unless exactly one output is set.
absl::Status PanelGemm(const Stream& stream, const PanelGemmParams& params);

// Whether this processor decodes fused layouts in registers. Otherwise PanelGemm takes the slower
// way with all weights, and products of few rows are faster in bf16.
bool DecodesInRegisters(const Stream& stream);

}  // namespace lockstep::kernels
