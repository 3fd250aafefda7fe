#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/formats/quantized_matrix.h"

namespace lockstep::kernels {

// Packed weights as the GPU's products read them. 8 rows are a strip, and 4 strips are a band. A
// block is 128 columns of a strip in one stretch of bytes: first codes, then scales, then zero
// points. Blocks lie as [bands][blocks of a strip][4 strips]. So some columns of a band are one
// stretch of bytes.
//
// Codes stand in the order in which a warp's lanes need them as the left operand of m16n8k16
// (kernels/core/ptx/mma.cuh). With g = lane / 4 and t = lane % 4, a lane has of each step of 16
// columns of row g the pair 0, columns 2t and 2t + 1, and the pair 1, columns 2t + 8 and 2t + 9.
// Its 16 bytes of several steps lie side by side: [16-byte parts of a block][32 lanes].
//   4 bits: a word has 2 steps. Pair i of step j has bits 4 * (2j + i) and 16 + 4 * (2j + i).
//   8 bits: a word has a step. Pair i has bytes 2i and 2i + 1.
// Scales and zero points of a group: [8 rows].
inline constexpr int kStripRows = 8;
inline constexpr int kBandStrips = 4;
inline constexpr int kBandRows = kBandStrips * kStripRows;
inline constexpr int kStripBlockColumns = 128;

// Blocks of a strip: a multiple of four, unless the blocks of zeros at its end would then be more
// than a sixteenth of it. Kernels take several blocks at a time.
inline constexpr int kLongStageBlocks = 4;
constexpr int64_t NumStripBlocks(int64_t k) {
  const int64_t blocks = (k + kStripBlockColumns - 1) / kStripBlockColumns;
  const int64_t whole = (blocks + kLongStageBlocks - 1) / kLongStageBlocks * kLongStageBlocks;
  return (whole - blocks) * 16 <= blocks ? whole : blocks;
}

enum class StripCodec {
  kInt4Group128,       // scales in bf16
  kInt4Group128Zeros,  // the same; zero points as 128 + z in bf16
  kInt4Group32,
  kInt4Group32Zeros,
  kInt8Group128,  // scales in fp16; codes of u
  kInt8Group32,
  kFp8Group128,  // scales in fp32
};
int64_t StripBlockBytes(StripCodec codec);
const char* StripCodecName(StripCodec codec);

struct StripMatrix {
  const std::byte* data = nullptr;  // aligned to 16 bytes
  StripCodec codec = StripCodec::kInt4Group128;
  int64_t n = 0;
  int64_t k = 0;

  // Rows and columns beyond n and k have the value 0.
  int64_t num_bands() const { return (n + kBandRows - 1) / kBandRows; }
  int64_t num_strips() const { return num_bands() * kBandStrips; }
  int64_t num_blocks() const { return NumStripBlocks(k); }  // of a strip
  int64_t num_bytes() const { return num_strips() * num_blocks() * StripBlockBytes(codec); }
  // The place of a block, in blocks.
  int64_t BlockIndex(int64_t strip, int64_t block) const {
    return (strip / kBandStrips * num_blocks() + block) * kBandStrips + strip % kBandStrips;
  }
};

// The codec that holds the matrix without a loss. INVALID_ARGUMENT naming the reason if none does:
// groups that are not a multiple of 32 columns or not contiguous, scales that the codec cannot
// store exactly, int8 with zero points, fp4. Such a matrix must be converted to bf16.
absl::StatusOr<StripCodec> ChooseStripCodec(const QuantizedMatrix& matrix);

// All strips of the matrix; `storage` of the result holds the bytes.
struct PackedStrips {
  StripMatrix matrix;  // data is null: the bytes go to a device
  std::vector<std::byte> storage;
};
absl::StatusOr<PackedStrips> PackStrips(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
