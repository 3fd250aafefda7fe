#pragma once

#include <bit>
#include <cstdint>

#include "kernels/quant/float16.h"

// The blocks of quantised GGUF tensors as they lie in the file (github.com/ggml-org/ggml,
// ggml-common.h). All are made of bytes, so that they can lie at any address.
namespace lockstep::kernels {

static_assert(std::endian::native == std::endian::little, "blocks are read as they lie");

struct GgufHalf {
  uint8_t bytes[2];
  uint16_t bits() const { return static_cast<uint16_t>(bytes[0] | bytes[1] << 8); }
  float value() const { return Float16ToFloat(bits()); }
};

struct BlockQ8_0 {
  static constexpr int kNumElements = 32;
  GgufHalf scale;
  int8_t quants[32];
};

// Byte i of the quants holds element i in its low and element i + 16 in its high half.
struct BlockQ4_0 {
  static constexpr int kNumElements = 32;
  GgufHalf scale;
  uint8_t quants[16];
};

struct BlockQ4_1 {
  static constexpr int kNumElements = 32;
  GgufHalf scale;
  GgufHalf minimum;
  uint8_t quants[16];
};

// Bit i of the little-endian fifth_bits belongs to element i.
struct BlockQ5_0 {
  static constexpr int kNumElements = 32;
  GgufHalf scale;
  uint8_t fifth_bits[4];
  uint8_t quants[16];
};

struct BlockQ5_1 {
  static constexpr int kNumElements = 32;
  GgufHalf scale;
  GgufHalf minimum;
  uint8_t fifth_bits[4];
  uint8_t quants[16];
};

// Super-blocks: eight sub-blocks of 32 elements with 6-bit scales and minima, packed into 12 bytes.
// Bytes 0..31 of the quants hold elements 0..31 in their low and 32..63 in their high halves, and
// so on.
struct BlockQ4_K {
  static constexpr int kNumElements = 256;
  GgufHalf scale;
  GgufHalf minimum;
  uint8_t packed_scales[12];
  uint8_t quants[128];
};

// Bit g of fifth_bits[i] belongs to element i of sub-block g.
struct BlockQ5_K {
  static constexpr int kNumElements = 256;
  GgufHalf scale;
  GgufHalf minimum;
  uint8_t packed_scales[12];
  uint8_t fifth_bits[32];
  uint8_t quants[128];
};

// Sixteen sub-blocks of 16 elements with 8-bit scales. Each half of the block has four groups of 32
// elements. Groups 0 and 1 have their low bits in the lower halves of bytes 0..31 and 32..63,
// groups 2 and 3 in the upper halves of the same bytes. Group g has its high bits at bit 2 g of the
// 32 bytes of high bits.
struct BlockQ6_K {
  static constexpr int kNumElements = 256;
  uint8_t low_bits[128];
  uint8_t high_bits[64];
  int8_t scales[16];
  GgufHalf scale;
};

// The 6 bits of a sub-block's scale and minimum, of Q4_K and Q5_K.
struct SubBlockBits {
  uint8_t scale;
  uint8_t minimum;
};

// Sub-blocks 0 to 3 have their 6 bits in one byte; 4 to 7 have 4 bits in bytes 8 to 11 and the
// other 2 in the top of the bytes of sub-blocks 0 to 3.
inline SubBlockBits UnpackSubBlock(const uint8_t (&packed)[12], int index) {
  if (index < 4) {
    return {static_cast<uint8_t>(packed[index] & 0x3f),
            static_cast<uint8_t>(packed[index + 4] & 0x3f)};
  }
  return {static_cast<uint8_t>((packed[index + 4] & 0xf) | (packed[index - 4] >> 6) << 4),
          static_cast<uint8_t>((packed[index + 4] >> 4) | (packed[index] >> 6) << 4)};
}

}  // namespace lockstep::kernels
