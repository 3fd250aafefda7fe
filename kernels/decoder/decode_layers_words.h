#pragma once

#include <cstdint>

#include "kernels/decoder/decode_layers.h"

// Where the words lie that blocks exchange. Host and device share these layouts.
namespace lockstep::kernels {

// Where the words of a row lie that all blocks read. The blocks ask for them again and again until
// they have come. The second-level cache keeps a line in one of its slices. Words side by side
// would leave all requests to few slices. So a line has words in one of its four sectors only.
struct SpreadRow {
  static constexpr int kSectorWords = 4;
  static constexpr int kLineWords = 16;

  static constexpr int64_t Words(int64_t words) {
    return (words + kSectorWords - 1) / kSectorWords * kLineWords;
  }
  static constexpr int Offset(unsigned word) {
    return static_cast<int>(word / kSectorWords * kLineWords + word % kSectorWords);
  }
};

// Where the words of a row lie that a norm reads. A warp reads 32 groups of 4 words, one group for
// each lane: first the first halves of all groups, then the second halves, so that each request of
// the warp is for whole sectors. They are spread over lines as SpreadRow says.
struct NormRow {
  static constexpr int kGroupWords = 4;
  static constexpr int kBlockWords = 32 * kGroupWords;
  static constexpr int kSecondHalf = SpreadRow::Offset(kBlockWords / 2);  // from the first half

  static constexpr int64_t Words(int64_t hidden_size) {
    return SpreadRow::Words((hidden_size / 2 + kBlockWords - 1) / kBlockWords * kBlockWords);
  }
  static constexpr int Offset(unsigned word) {
    const unsigned group = word / kGroupWords % 32;
    return SpreadRow::Offset(word / kBlockWords * kBlockWords +
                             word % kGroupWords / 2 * (kBlockWords / 2) + 2 * group + word % 2);
  }
};

// Offsets in the scratch memory, in words. A word carries two bf16, or one float.
struct DecodeLayersWords {
  constexpr explicit DecodeLayersWords(const DecodeLayersShape& shape)
      : qkv(kHeaderWords),
        attention(qkv + kMaxDecodeLayersRows * shape.qkv_size() / 2),
        attention_delta(attention + kMaxDecodeLayersRows * SpreadRow::Words(shape.q_size() / 2)),
        activated(attention_delta + kMaxDecodeLayersRows * NormRow::Words(shape.hidden_size)),
        mlp_delta(activated + kMaxDecodeLayersRows * SpreadRow::Words(shape.intermediate_size / 2)),
        partials(mlp_delta + kMaxDecodeLayersRows * NormRow::Words(shape.hidden_size)) {}

  // The last tag used, blocks that have ended, and nothing up to the end of the line.
  static constexpr int64_t kHeaderWords = SpreadRow::kLineWords;
  // Tags ascend by one a layer. After this tag (after a day of the smallest model) the words are
  // cleared and tags begin again at 1. Tag 0 is the tag of words that were never written.
  static constexpr uint32_t kLastTag = 0xFFFF0000;

  int64_t qkv;              // [rows, qkv_size / 2]
  int64_t attention;        // [rows] SpreadRow of q_size / 2
  int64_t attention_delta;  // [rows] NormRow
  int64_t activated;        // [rows] SpreadRow of intermediate_size / 2
  int64_t mlp_delta;        // [rows] NormRow
  int64_t partials;         // of attention, as DecodePartialElements counts them
};

}  // namespace lockstep::kernels
