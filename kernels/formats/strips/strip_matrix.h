#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/formats/quantized_matrix.h"
#include "kernels/formats/strips/strip_codec.h"

namespace lockstep::kernels {

// Packed weights as the GPU's products read them. 8 rows are a strip, and 4 strips are a band. A
// block is 128 columns of a strip in one stretch of bytes (kernels/formats/strips/strip_codec.h).
// Blocks lie as [bands][blocks of a strip][4 strips]. So some columns of a band are one stretch of
// bytes. NVFP4 has a table of rows behind all blocks: [rows][hi_bytes, lo_bytes], then
// [rows][upper_bytes] (kernels/formats/strips/fp4/fp4_weights.h).
inline constexpr int kBandStrips = 4;
inline constexpr int kBandRows = kBandStrips * kStripRows;

// Blocks of a strip: a multiple of four, unless the blocks of zeros at its end would then be more
// than a sixteenth of it. Kernels take several blocks at a time.
inline constexpr int kLongStageBlocks = 4;
constexpr int64_t NumStripBlocks(int64_t k) {
  const int64_t blocks = (k + kStripBlockColumns - 1) / kStripBlockColumns;
  const int64_t whole = (blocks + kLongStageBlocks - 1) / kLongStageBlocks * kLongStageBlocks;
  return (whole - blocks) * 16 <= blocks ? whole : blocks;
}

struct StripMatrix {
  const std::byte* data = nullptr;  // aligned to 16 bytes
  StripCodec codec = StripCodec::kInt4Group128;
  int64_t n = 0;
  int64_t k = 0;

  // Rows and columns beyond n and k have the value 0.
  int64_t num_bands() const { return (n + kBandRows - 1) / kBandRows; }
  int64_t num_strips() const { return num_bands() * kBandStrips; }
  int64_t num_blocks() const { return NumStripBlocks(k); }        // of a strip
  int64_t num_rows() const { return num_strips() * kStripRows; }  // those beyond n as well
  int64_t blocks_bytes() const { return num_strips() * num_blocks() * StripBlockBytes(codec); }
  int64_t num_bytes() const {
    return blocks_bytes() + num_rows() * ShapeOfStripCodec(codec).row_bytes();
  }
  // The place of a block, in blocks.
  int64_t BlockIndex(int64_t strip, int64_t block) const {
    return (strip / kBandStrips * num_blocks() + block) * kBandStrips + strip % kBandStrips;
  }
};

// All strips of the matrix; `storage` of the result holds the bytes. INVALID_ARGUMENT as from
// ChooseStripCodec.
struct PackedStrips {
  StripMatrix matrix;  // data is null: the bytes go to a device
  std::vector<std::byte> storage;
};
absl::StatusOr<PackedStrips> PackStrips(const QuantizedMatrix& matrix);

}  // namespace lockstep::kernels
