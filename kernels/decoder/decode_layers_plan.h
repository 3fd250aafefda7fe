#pragma once

#include <cstdint>

#include "kernels/attention/paged_attention.h"
#include "kernels/decoder/decode_layers.h"

// Sizes and layouts that host and device share.
namespace lockstep::kernels {

inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumerThreads = 32 * kConsumerWarps;

// A stage of the ring of weights holds chunks of the tiles that a pass has side by side. A tile has
// kTileOutputs outputs, and a chunk has kChunkColumns of its columns.
inline constexpr int kTileOutputs = 8;
inline constexpr int kChunkColumns = 64;  // inputs of products are a multiple of it
inline constexpr int kChunkBytes = kTileOutputs * kChunkColumns * 2;
inline constexpr int kStageChunks = 16;
inline constexpr int kStageBytes = kStageChunks * kChunkBytes;
inline constexpr int kMinWeightStages = 4;
inline constexpr int kMaxWeightStages = 12;

// A matrix instruction always reads kMaxSideBySide tiles, even where these lie after the stage.
inline constexpr int kMaxSideBySide = 8;
inline constexpr int kReadBehindRing = kStageBytes;

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
// instruction. If the product is gated, it takes `tiles` tiles of the gate, followed by as many of
// up.
struct ProductPass {
  // The tiles of `num_outputs` are dealt out to the blocks in turn.
  constexpr ProductPass(int64_t num_outputs, int halves, int num_blocks) {
    const int most = static_cast<int>((num_outputs / kTileOutputs + num_blocks - 1) / num_blocks);
    tiles = most < kMaxSideBySide / halves ? most : kMaxSideBySide / halves;
    // With 2 or 3 tiles, the instruction would read too far after the stage.
    const int side_by_side = tiles * halves;
    slab_chunks = kStageChunks / (side_by_side == 1 ? 1 : side_by_side < 4 ? 4 : side_by_side);
    // With one tile, the instruction's unused rows come from the chunks after it.
    tile_stride = side_by_side == 1 ? kChunkBytes : slab_chunks * kChunkBytes;
  }

  int tiles = 0;
  int slab_chunks = 0;  // chunks of each tile in a stage
  int tile_stride = 0;  // bytes
};

constexpr int DecodeLayersBlocks(const CudaStream& stream) {
  return stream.num_multiprocessors < kMaxDecodeLayersBlocks ? stream.num_multiprocessors
                                                             : kMaxDecodeLayersBlocks;
}

// Offsets in the scratch memory, in words. A word carries two bf16, or one float.
struct DecodeLayersWords {
  constexpr explicit DecodeLayersWords(const DecodeLayersShape& shape)
      : qkv(kHeaderWords),
        attention(qkv + kMaxDecodeLayersRows * shape.qkv_size() / 2),
        attention_delta(attention + kMaxDecodeLayersRows * shape.q_size() / 2),
        activated(attention_delta + kMaxDecodeLayersRows * shape.hidden_size / 2),
        mlp_delta(activated + kMaxDecodeLayersRows * shape.intermediate_size / 2),
        partials(mlp_delta + kMaxDecodeLayersRows * shape.hidden_size / 2) {}

  static constexpr int64_t kHeaderWords = 2;  // the last tag used, blocks that have ended
  // Tags ascend by one a layer. After this tag (after a day of the smallest model) the words are
  // cleared and tags begin again at 1. Tag 0 is the tag of words that were never written.
  static constexpr uint32_t kLastTag = 0xFFFF0000;

  int64_t qkv;              // [rows, qkv_size / 2]
  int64_t attention;        // [rows, q_size / 2]
  int64_t attention_delta;  // [rows, hidden_size / 2]
  int64_t activated;        // [rows, intermediate_size / 2]
  int64_t mlp_delta;        // [rows, hidden_size / 2]
  int64_t partials;         // of attention, as DecodePartialElements counts them
};

// DecodeLayers, after its checks.
absl::Status LaunchDecodeLayers(const CudaStream& stream, const DecodeLayersParams& params);

}  // namespace lockstep::kernels
