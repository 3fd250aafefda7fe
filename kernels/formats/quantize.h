#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>

#include "kernels/formats/quantized_matrix.h"

// Round-to-nearest quantisation without calibration: the scale of a group comes from its smallest
// and largest value. The codes and scales are those of compressed-tensors' calculate_qparams and
// quantize with llm-compressor's minmax observer, bit for bit.
namespace lockstep::kernels {

// Scales and quotients are rounded to this type after every operation. compressed-tensors computes
// in the type of the checkpoint's weights.
enum class QuantizeArithmetic { kFloat32, kBFloat16 };

struct QuantizeOptions {
  CodeKind kind = CodeKind::kInt4;  // or kInt8 or kFp8E4M3
  bool symmetric = true;            // floating-point codes are always symmetric
  // What shares a scale: `group_columns` columns (0: all) of `group_rows` rows (0: all).
  int64_t group_columns = 128;
  int64_t group_rows = 1;
  QuantizeArithmetic arithmetic = QuantizeArithmetic::kFloat32;
  // Scales are rounded to bf16 before weights are divided by them. Integers with fp32 scales would
  // change when they are read again (docs/formats.md).
  bool scales_in_bf16 = false;
};

// INVALID_ARGUMENT if a value is not finite or above 2^126, or if groups of one row each
// (group_rows 1) do not divide the columns. Blocks of several rows may be cut at the edges.
//   values: [n, k]
absl::StatusOr<QuantizedMatrix> QuantizeToNearest(std::span<const float> values, int64_t n,
                                                  int64_t k, const QuantizeOptions& options);

}  // namespace lockstep::kernels
