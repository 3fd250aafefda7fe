#pragma once

#include <cstdint>

#include "kernels/attention/decode/decode_block.cuh"
#include "kernels/core/ptx/bulk_copy.cuh"
#include "kernels/core/ptx/registers.cuh"
#include "kernels/decoder/decode_layers.h"
#include "kernels/decoder/decode_layers_plan.h"
#include "kernels/decoder/decode_layers_words.h"
#include "kernels/decoder/weight_ring.cuh"

// The blocks of the DecodeLayers kernel: their warps, their shared memory, and what all warps know.
namespace lockstep::kernels {

inline constexpr int kWeightWarp = kConsumerWarps;
inline constexpr int kKvWarp = kConsumerWarps + 1;
inline constexpr int kPrefetchWarp = kConsumerWarps + 2;
inline constexpr int kThreads = kConsumerThreads + 128;
inline constexpr int kConsumerRegisters = 232;
inline constexpr int kProducerRegisters = 40;
inline constexpr int kConsumerBarrier = 2;
inline constexpr int kAttentionBarrier = 3;  // consumers and the warp that fetches keys and values
inline constexpr int kPatchBarrier = 4;      // the warps that compute scores
inline constexpr int kScoreBuffers = 2;
inline constexpr int kScoresBarrier = 5;  // [kScoreBuffers]: the scores of a tile are there
inline constexpr int kFreeScoresBarrier = kScoresBarrier + kScoreBuffers;   // and have been read
inline constexpr int kProductBarrier = kFreeScoresBarrier + kScoreBuffers;  // a product has ended
static_assert(kConsumerWarps == 2 * kMathWarps && kScoreBuffers == 2);

// What the kernel is compiled for. With the number of rows known, rows are read and normed side by
// side, and a single row does without much that several need.
template <int kHeadDimValue, DecoderStyle kStyleValue, int kRowsValue>
struct LayersForm {
  static constexpr int kHeadDim = kHeadDimValue;
  static constexpr DecoderStyle kStyle = kStyleValue;
  static constexpr int kRows = kRowsValue;
};

// One split of one row for one KV head.
struct LayerItem {
  int row;
  int kv_head;
  int num_parts;   // parts that the row's result is folded from
  int first_slot;  // of the first part of the row and head; the slots of its parts are num_kv_heads
                   // apart
  int slot;        // of this part, among all partial results
  int key_begin;
  int key_end;
};

// Byte offsets in shared memory.
template <int kHeadDim>
struct DecodeLayersMemory {
  __host__ __device__ DecodeLayersMemory(const DecodeLayersShape& shape, int num_rows,
                                         int num_kv_stages, int num_weight_stages)
      : kv(static_cast<int>(shape.num_heads / shape.num_kv_heads),
           static_cast<int>(shape.num_heads / shape.num_kv_heads), num_kv_stages),
        num_keys(kv.works),
        first_splits(num_keys + num_rows * 4),
        block_item(first_splits + 2 * (num_rows + 1) * 4),
        hidden_row_bytes(static_cast<int>(2 * shape.hidden_size)),
        wide_row_bytes(static_cast<int>(2 * (shape.q_size() > shape.intermediate_size
                                                 ? shape.q_size()
                                                 : shape.intermediate_size))),
        weights((block_item + static_cast<int>(sizeof(LayerItem)) + 1023) / 1024 * 1024),
        normed(weights + num_weight_stages * kStageBytes),
        wide(normed + num_rows * hidden_row_bytes),
        residual(wide + num_rows * wide_row_bytes),
        norm_weights(residual + num_rows * hidden_row_bytes),
        head_words(norm_weights + NormBytes(shape)),
        new_key(head_words + kConsumerWarps * kHeadDim * 2),
        new_value(new_key + kHeadDim * 2),
        warp_sums(new_value + kHeadDim * 2),
        barriers(warp_sums + 2 * num_rows * kConsumerWarps * 4),
        end(barriers + kMaxWeightStages * 16 > normed + kReadBehindRing
                ? barriers + kMaxWeightStages * 16
                : normed + kReadBehindRing) {}

  __host__ __device__ static int NormBytes(const DecodeLayersShape& shape) {
    return static_cast<int>(shape.hidden_size) * (shape.style == DecoderStyle::kGpt2 ? 8 : 4);
  }

  DecodeShared<kHeadDim> kv;
  int num_keys;      // [num_rows]
  int first_splits;  // [2][num_rows + 1]: the long and the short splits of the rows before
  int block_item;    // LayerItem: the block's, if blocks have at most one
  int hidden_row_bytes;
  int wide_row_bytes;
  int weights;       // [num_weight_stages] stages; kReadBehindRing more bytes are read
  int normed;        // InputRows of hidden_row_bytes: input of qkv and gate_up
  int wide;          // InputRows of wide_row_bytes: input of the other two products
  int residual;      // [num_rows] rows of hidden_row_bytes
  int norm_weights;  // [hidden_size] fp32, of the next norm; LayerNorm: then as many biases
  int head_words;    // [kConsumerWarps][kHeadDim] bf16
  int new_key;       // [kHeadDim] bf16, of the row's own token
  int new_value;
  int warp_sums;  // [2][num_rows][kConsumerWarps] fp32
  int barriers;   // [kMaxWeightStages] full, empty
  int end;
};

template <int kHeadDim>
struct DecodeLayersArguments {
  DecodeLayersParams params;
  DecodeArguments attention;
  DecodeLayersMemory<kHeadDim> memory;
  DecodeLayersWords words;
  ProductPlan products[kNumLayerProducts];
  int num_weight_stages;
};

// What all warps of a block know. The arguments are the kernel's own: instructions read them as
// constants.
template <typename Form>
struct LayersBlock {
  static constexpr int kHeadDim = Form::kHeadDim;

  // After this call, everything that depends on `address` is computed again. Otherwise the
  // compiler keeps in registers what does not change from layer to layer, and the products lack
  // these registers.
  __device__ __forceinline__ void Forget() { ptx::ForgetOrigin(address); }

  __device__ __forceinline__ const DecodeLayersParams& Params() const { return arguments->params; }
  __device__ __forceinline__ const DecodeArguments& Attention() const {
    return arguments->attention;
  }
  __device__ __forceinline__ const DecodeLayersMemory<kHeadDim>& Memory() const {
    return arguments->memory;
  }
  __device__ __forceinline__ const DecodeLayersWords& Offsets() const { return arguments->words; }
  __device__ __forceinline__ DecodeBlock<kHeadDim> Kv() const {
    return {arguments->memory.kv, At<unsigned char>(0), address};
  }
  // Call from whole warps.
  __device__ __forceinline__ WeightRing Ring() const {
    const uint32_t weights = address + arguments->memory.weights;
    const uint32_t barriers = address + arguments->memory.barriers;
    return {ptx::WarpUniform(weights), ptx::WarpUniform(barriers), arguments->num_weight_stages};
  }
  __device__ __forceinline__ int Hidden() const {
    return static_cast<int>(Params().shape.hidden_size);
  }
  __device__ __forceinline__ int QSize() const { return static_cast<int>(Params().shape.q_size()); }
  __device__ __forceinline__ int QkvSize() const {
    return static_cast<int>(Params().shape.qkv_size());
  }
  __device__ __forceinline__ int* NumKeys() const { return At<int>(arguments->memory.num_keys); }
  __device__ __forceinline__ int* FirstLongSplits() const {
    return At<int>(arguments->memory.first_splits);
  }
  __device__ __forceinline__ int* FirstShortSplits() const {
    return FirstLongSplits() + Form::kRows + 1;
  }
  __device__ __forceinline__ const ProductPlan& Product(int index) const {
    return arguments->products[index];
  }
  // Tiles of the product that this block has.
  __device__ __forceinline__ int NumTiles(int index) const {
    return Product(index).NumTiles(static_cast<int>(blockIdx.x));
  }
  __device__ __forceinline__ uint64_t* Words(int64_t offset) const {
    return Params().scratch + offset;
  }

  // What lies at a byte offset in shared memory. The compiler sees that it lies there.
  template <typename T>
  __device__ __forceinline__ T* At(int offset) const {
    return static_cast<T*>(__cvta_shared_to_generic(address + offset));
  }

  const DecodeLayersArguments<kHeadDim>* arguments;
  uint32_t address;  // of the block's shared memory
};

__device__ __forceinline__ void SyncConsumers() {
  __syncwarp();  // the barrier counts whole warps
  ptx::SyncThreads(kConsumerBarrier, kConsumerThreads);
}

}  // namespace lockstep::kernels
