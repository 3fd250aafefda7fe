#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/paged_attention.h"
#include "kernels/decoder/decode_layers.h"

// Sizes and layouts that host and device share.
namespace lockstep::kernels {

inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumerThreads = 32 * kConsumerWarps;

// A stage of the ring of weights holds a slab: some chunks of the tiles that a pass has side by
// side, chunk by chunk. A tile has kTileOutputs outputs, and a chunk has kChunkColumns of their
// columns.
inline constexpr int kTileOutputs = 8;
inline constexpr int kChunkColumns = 64;  // inputs of products are a multiple of it
inline constexpr int kChunkBytes = kTileOutputs * kChunkColumns * 2;
inline constexpr int kStageChunks = 16;
inline constexpr int kStageBytes = kStageChunks * kChunkBytes;
inline constexpr int kMinWeightStages = 4;
inline constexpr int kMaxWeightStages = 12;

// A matrix instruction always reads kMaxSideBySide tiles, even where these lie after the stage.
inline constexpr int kMaxSideBySide = 8;
inline constexpr int kReadBehindRing = kMaxSideBySide * kChunkBytes;

struct ProductShape {
  constexpr ProductShape(const DecodeLayersShape& shape, LayerProduct product) {
    switch (product) {
      case kQkv:
        outputs = shape.qkv_size();
        inputs = shape.hidden_size;
        break;
      case kAttentionOutput:
        outputs = shape.hidden_size;
        inputs = shape.q_size();
        break;
      case kMlpInput:
        outputs = shape.intermediate_size;
        inputs = shape.hidden_size;
        halves = shape.style == DecoderStyle::kLlama ? 2 : 1;
        break;
      case kMlpOutput:
        outputs = shape.hidden_size;
        inputs = shape.intermediate_size;
        break;
    }
  }

  int64_t outputs = 0;  // of one half
  int64_t inputs = 0;
  int halves = 1;  // 2: gate, then up, as SwiGLU has them
};

// How a block multiplies its tiles of a product. A pass takes `tiles` of them as rows of one matrix
// instruction; if the product is gated, each tile of the gate is followed by its tile of up.
struct ProductPass {
  constexpr ProductPass(int64_t num_outputs, int halves, int num_blocks) {
    const int most = static_cast<int>((num_outputs / kTileOutputs + num_blocks - 1) / num_blocks);
    tiles = most < kMaxSideBySide / halves ? most : kMaxSideBySide / halves;
    side_by_side = tiles * halves;
    slab_chunks = kStageChunks / side_by_side;
  }

  int tiles = 0;
  int side_by_side = 0;
  int slab_chunks = 0;
};

constexpr int64_t LayerWeightBytes(const DecodeLayersShape& shape) {
  int64_t elements = 0;
  for (int index = 0; index < kNumLayerProducts; ++index) {
    const ProductShape product(shape, static_cast<LayerProduct>(index));
    elements += product.halves * product.outputs * product.inputs;
  }
  return elements * static_cast<int64_t>(sizeof(BFloat16));
}

// How many rows are faster in one kernel than by the ops. Small layers are short compared to the
// cost of starting and ending their kernels. Large layers are not. Measured on both sides of the
// border: with 31 MB a layer it pays, up to four rows, and with 385 MB an earlier form of the
// kernel gained 3 % at best with one. GPT-2 gains nothing with four rows: that kernel has more code
// than the instruction cache holds.
constexpr int64_t FasterRows(const DecodeLayersShape& shape) {
  const int64_t bytes = LayerWeightBytes(shape);
  if (bytes <= int64_t{32} << 20 && shape.style == DecoderStyle::kLlama) return 4;
  if (bytes <= int64_t{64} << 20) return 2;
  return 0;
}

constexpr int DecodeLayersBlocks(const CudaStream& stream) {
  return std::min(stream.num_multiprocessors, kMaxDecodeLayersBlocks);
}

// How many of the blocks multiply. These ask for the same words, so each makes the others wait a
// little. There are no more of them than the narrowest products have tiles, unless each would have
// to read more than kMostBlockBytes of a layer. The others take part in attention only.
constexpr int ProductBlocks(const CudaStream& stream, const DecodeLayersShape& shape) {
  constexpr int64_t kMostBlockBytes = 16 * kStageBytes;
  const int64_t blocks =
      std::max(shape.hidden_size / kTileOutputs,
               (LayerWeightBytes(shape) + kMostBlockBytes - 1) / kMostBlockBytes);
  return static_cast<int>(std::min<int64_t>(blocks, DecodeLayersBlocks(stream)));
}

// What the blocks need to know of a product of a layer. The tiles of a block are neighbours.
struct ProductPlan {
  constexpr ProductPlan(const DecodeLayersShape& shape, LayerProduct product, int num_blocks,
                        const uint64_t* from_, uint64_t* to_)
      : blocks(num_blocks), from(from_), to(to_) {
    const ProductShape of(shape, product);
    const ProductPass pass(of.outputs, of.halves, num_blocks);
    const int num_tiles = static_cast<int>(of.outputs / kTileOutputs);
    outputs = static_cast<int>(of.outputs);
    num_chunks = static_cast<int>(of.inputs / kChunkColumns);
    pass_tiles = pass.tiles;
    side_by_side = pass.side_by_side;
    slab_chunks = pass.slab_chunks;
    tiles_of_all = num_tiles / num_blocks;
    blocks_with_more = num_tiles % num_blocks;
  }

  constexpr int NumTiles(int block) const {
    return block < blocks ? tiles_of_all + (block < blocks_with_more ? 1 : 0) : 0;
  }
  constexpr int FirstTile(int block) const {
    return block * tiles_of_all + (block < blocks_with_more ? block : blocks_with_more);
  }

  int blocks = 0;   // that multiply: the first ones
  int outputs = 0;  // of one half
  int num_chunks = 0;
  int pass_tiles = 0;
  int side_by_side = 0;
  int slab_chunks = 0;
  int tiles_of_all = 0;            // that each block has, of one half
  int blocks_with_more = 0;        // the first blocks have one tile more
  const uint64_t* from = nullptr;  // words of the inputs; with a norm, words of what is added to
                                   // the residual
  uint64_t* to = nullptr;
};

// DecodeLayers, after its checks.
absl::Status LaunchDecodeLayers(const CudaStream& stream, const DecodeLayersParams& params);

}  // namespace lockstep::kernels
