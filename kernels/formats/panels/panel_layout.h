#pragma once

#include <cstdint>

#include "kernels/formats/quantized_matrix.h"

// The parts of a panel of 32 outputs, one after the other, each padded to 64 bytes:
//
//   Codes: [steps of columns][2 parities][32 outputs] words. A word has the codes of every second
//     column of its step, the lowest bits first: of the even columns, or of the odd ones.
//     4 bits: steps of 16 columns, words of 8 codes, 32 bits.
//     5 bits: the same, and behind the words of each step [2 parities][32 outputs] bytes with the
//       fifth bits.
//     6 bits: the same, with 16 bits for the fifth and sixth bits.
//     Integers of 8 bits: steps of 8 columns, words of 4 codes, 32 bits.
//     E4M3: steps of 4 columns, words of 2 codes, 16 bits.
//   Scales, then minima: [groups][32 outputs], both of the type PanelScales says.
//   Zero points: [groups][32 outputs] bytes.
//   With two levels, the scales and minima of blocks: [blocks][32 outputs] fp16.
//
// So a lane of a vector is an output, and a shift brings the next code to the low bits of every
// lane.
namespace lockstep::kernels {

enum class PanelScales {
  kFloat32,
  kFloat16,
  kBFloat16,
  kBytes,        // of two levels
  kSignedBytes,  // of two levels
};

// All that kernels need to know beside the bytes.
struct PanelLayout {
  CodeKind kind = CodeKind::kInt4;
  PanelScales scales = PanelScales::kFloat32;
  bool has_minima = false;
  bool has_zeros = false;
  // One fused multiply-add of a code gives the bits of DequantizeRow, and groups have whole steps.
  bool is_fused = false;
  // Also the product of a code and its scale is a bf16 already, as in MXFP4. Only for kFp4E2M1.
  bool is_exact = false;
  int64_t group_columns = 0;
  int64_t block_columns = 0;  // 0: one level of scales
  int64_t num_groups = 0;
  int64_t num_blocks = 0;
  int64_t num_steps = 0;
  // Parts, in bytes from the begin of the panel. Codes begin it.
  int64_t scale_offset = 0;
  int64_t minimum_offset = 0;
  int64_t zero_offset = 0;
  int64_t block_scale_offset = 0;
  int64_t block_minimum_offset = 0;
  int64_t panel_bytes = 0;
};

// Columns of a step of codes.
constexpr int StepColumns(CodeKind kind) {
  return kind == CodeKind::kInt8 ? 8 : kind == CodeKind::kFp8E4M3 ? 4 : 16;
}
// Bytes of a word of codes.
constexpr int WordBytes(CodeKind kind) { return kind == CodeKind::kFp8E4M3 ? 2 : 4; }
// Bytes of a step, without the fifth and sixth bits.
constexpr int StepWordBytes(CodeKind kind) { return 64 * WordBytes(kind); }
constexpr int StepBytes(CodeKind kind) {
  switch (kind) {
    case CodeKind::kInt5:
    case CodeKind::kInt5Min:
      return StepWordBytes(kind) + 64;
    case CodeKind::kInt6:
      return StepWordBytes(kind) + 128;
    default:
      return StepWordBytes(kind);
  }
}

// Fills in everything from num_groups on, for a matrix of k columns.
void PlaceParts(int64_t k, PanelLayout* layout);

// Bytes of a scale or a minimum.
int64_t BytesOf(PanelScales scales);

}  // namespace lockstep::kernels
