#pragma once

#include <cstdint>

#include "kernels/attention/paged_attention.h"
#include "kernels/decoder/decode_layers.h"

// Where things lie, for host and device alike.
namespace lockstep::kernels {

inline constexpr int kConsumerWarps = 8;
inline constexpr int kConsumerThreads = 32 * kConsumerWarps;

// A stage of the ring of weights: kTileOutputs rows of up to kSlabColumns columns, each padded so
// that matrix instructions read them without bank conflicts.
inline constexpr int kTileOutputs = 8;
inline constexpr int kSlabColumns = 512;
inline constexpr int kSlabRowBytes = 2 * kSlabColumns + 16;
inline constexpr int kStageBytes = kTileOutputs * kSlabRowBytes;
inline constexpr int kRunColumns = 64;  // that a warp fetches at a time: inputs are a multiple
inline constexpr int kMinWeightStages = 6;
inline constexpr int kMaxWeightStages = 16;

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
