#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "common/ids.h"
#include "kernels/core/bfloat16.h"
#include "kernels/device/cuda_stream.h"
#include "kernels/kv_cache/paged_kv.h"

// All layers of a decoder for a few decode rows in one CUDA kernel. A step of one row is short
// compared to the cost of starting and ending kernels. Here the blocks stay, weights keep streaming
// while results travel, and blocks hand results to each other word by word
// (docs/decisions/0002-decode-layers.md). Every output is equal, bit for bit, to that of the ops
// one after the other (GatherRows, RmsNorm or LayerNorm, Gemm, RotaryAppend, PagedDecodeAttention,
// GemmSwiGlu or Gelu).
namespace lockstep::kernels {

// What the layers are made of.
enum class DecoderStyle {
  kLlama,  // RMSNorm, SwiGLU
  kGpt2,   // LayerNorm with bias, GELU by tanh
};

// Describes a matrix to the copy engine: a CUtensorMap.
struct alignas(128) WeightMap {
  std::byte bytes[128] = {};
};

// A matrix product of a layer; device pointers.
struct DecodeProduct {
  const BFloat16* weights = nullptr;  // [outputs, inputs], row-major
  const float* bias = nullptr;        // [outputs]; null: none
  WeightMap map = {};                 // of the weights; MapWeights fills it in
};

// In a layer's order.
enum LayerProduct : int { kQkv, kAttentionOutput, kMlpInput, kMlpOutput };
inline constexpr int kNumLayerProducts = 4;

// One layer; device pointers, null for parts that it does not have.
struct DecodeLayer {
  const float* attention_norm = nullptr;       // [hidden_size]
  const float* attention_norm_bias = nullptr;  // [hidden_size]
  const float* q_norm = nullptr;               // [head_dim]
  const float* k_norm = nullptr;               // [head_dim]
  const float* mlp_norm = nullptr;             // [hidden_size]
  const float* mlp_norm_bias = nullptr;        // [hidden_size]
  BFloat16* kv = nullptr;                      // the layer's PagedKv::data
  // [q_size + 2 * kv_size, hidden_size], [hidden_size, q_size], [intermediate_size, hidden_size]
  // (SwiGLU: twice as many outputs, gate and then up) and [hidden_size, intermediate_size].
  DecodeProduct products[kNumLayerProducts];
};

struct DecodeLayersShape {
  DecoderStyle style = DecoderStyle::kLlama;
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;

  constexpr int64_t q_size() const { return num_heads * head_dim; }
  constexpr int64_t qkv_size() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};

inline constexpr int64_t kMaxDecodeLayersRows = 4;
// The most blocks of a call. They wait for each other, so each needs a multiprocessor of its own.
inline constexpr int kMaxDecodeLayersBlocks = 132;

// The most rows that one call takes, up to kMaxDecodeLayersRows. 0: there is no kernel for the
// shape, for example because hidden_size is above 2,048.
int64_t DecodeLayersMaxRows(const DecodeLayersShape& shape);

// Up to this many rows, a call is taken to be faster than the ops, if the number of rows times the
// keys of the longest is at most DecodeLayersFasterKeys(shape). bench/results/diary.md has the
// measurements.
int64_t DecodeLayersFasterRows(const DecodeLayersShape& shape);
int64_t DecodeLayersFasterKeys(const DecodeLayersShape& shape);

// How many 8-byte words of scratch memory the calls need, for rows of up to `max_keys` keys. The
// memory must be zero before the first call. Only these calls use it, and they follow each other on
// one stream.
int64_t DecodeLayersScratchWords(const DecodeLayersShape& shape, int64_t max_keys);

// Whether the stream's device can run all blocks of a call at once. It must, because the blocks
// wait for each other.
absl::StatusOr<bool> DecodeLayersFit(const CudaStream& stream, const DecodeLayersShape& shape);

// Fills in the maps of the layer's weights, for calls on the stream's device. INTERNAL when the
// driver refuses a matrix, UNAVAILABLE when the driver has no tensor maps.
absl::Status MapWeights(const CudaStream& stream, const DecodeLayersShape& shape,
                        DecodeLayer& layer);

struct DecodeLayersParams {
  DecodeLayersShape shape;
  const DecodeLayer* layers = nullptr;  // [num_layers], device memory
  float norm_eps = 0.0f;
  float attention_scale = 1.0f;
  const float* cos = nullptr;  // [max_positions, head_dim / 2]
  const float* sin = nullptr;
  int64_t num_rows = 0;  // 1 .. DecodeLayersMaxRows(shape)
  // A padding row has kNoPosition and kNoKvSlot. Other rows have neither.
  const uint32_t* positions = nullptr;    // [num_rows]
  const uint64_t* kv_slots = nullptr;     // [num_rows]
  const BlockId* block_tables = nullptr;  // [tables, block_table_stride]
  int64_t block_table_stride = 0;
  const uint32_t* block_table_rows = nullptr;  // [num_rows]
  // The residual begins with rows of the token table. kGpt2 adds the position's row, if there is
  // such a table. kNoRow: zeros. Any other index outside a table stops the device (a trap).
  const uint32_t* token_ids = nullptr;            // [num_rows]
  const BFloat16* token_embeddings = nullptr;     // [vocab_size, hidden_size]
  const BFloat16* position_embeddings = nullptr;  // [max_positions, hidden_size], or null
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  const float* final_norm = nullptr;       // [hidden_size]
  const float* final_norm_bias = nullptr;  // [hidden_size]; LayerNorm only
  BFloat16* output = nullptr;              // [num_rows, hidden_size], normed
  uint64_t* scratch = nullptr;             // aligned to 128 bytes
  int64_t num_scratch_words = 0;           // all of them; cleared when the tags run out
};

// With overlapped launches the kernel reads only `layers` and the memory that they point to, except
// K and V, before it has waited for its predecessor. It lets no successor start before that.
// INVALID_ARGUMENT for a number of rows that the shape does not take. Run one call at a time on a
// device: two calls that each hold multiprocessors which the other needs would wait forever. A row
// attends to the tokens before this step and to its own token. The rows of a call belong to
// different sequences.
absl::Status DecodeLayers(const CudaStream& stream, const DecodeLayersParams& params);

}  // namespace lockstep::kernels
