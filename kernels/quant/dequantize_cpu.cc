#include <bit>
#include <cstdint>
#include <cstring>

#include "common/status.h"
#include "kernels/quant/dequantize.h"
#include "kernels/quant/gguf_blocks.h"

namespace lockstep::kernels {
namespace {

// Types without scales are blocks of one element.
struct BlockF32 {
  static constexpr int kNumElements = 1;
  uint8_t bytes[4];
};

struct BlockF16 {
  static constexpr int kNumElements = 1;
  GgufHalf value;
};

struct BlockBF16 {
  static constexpr int kNumElements = 1;
  GgufHalf value;
};

void DequantizeBlock(const BlockF32& block, float* out) {
  std::memcpy(out, block.bytes, sizeof(float));
}

void DequantizeBlock(const BlockF16& block, float* out) { *out = block.value.value(); }

void DequantizeBlock(const BlockBF16& block, float* out) {
  *out = std::bit_cast<float>(static_cast<uint32_t>(block.value.bits()) << 16);
}

void DequantizeBlock(const BlockQ8_0& block, float* out) {
  const float scale = block.scale.value();
  for (int i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(block.quants[i]);
}

void DequantizeBlock(const BlockQ4_0& block, float* out) {
  const float scale = block.scale.value();
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((block.quants[i] & 0xf) - 8);
    out[i + 16] = scale * static_cast<float>((block.quants[i] >> 4) - 8);
  }
}

void DequantizeBlock(const BlockQ4_1& block, float* out) {
  const float scale = block.scale.value();
  const float minimum = block.minimum.value();
  for (int i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(block.quants[i] & 0xf) + minimum;
    out[i + 16] = scale * static_cast<float>(block.quants[i] >> 4) + minimum;
  }
}

uint32_t LoadBits(const uint8_t (&bytes)[4]) {
  uint32_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

void DequantizeBlock(const BlockQ5_0& block, float* out) {
  const float scale = block.scale.value();
  const uint32_t fifth_bits = LoadBits(block.fifth_bits);
  for (int i = 0; i < 16; ++i) {
    const int low = (block.quants[i] & 0xf) | static_cast<int>((fifth_bits >> i & 1) << 4);
    const int high = (block.quants[i] >> 4) | static_cast<int>((fifth_bits >> (i + 16) & 1) << 4);
    out[i] = scale * static_cast<float>(low - 16);
    out[i + 16] = scale * static_cast<float>(high - 16);
  }
}

void DequantizeBlock(const BlockQ5_1& block, float* out) {
  const float scale = block.scale.value();
  const float minimum = block.minimum.value();
  const uint32_t fifth_bits = LoadBits(block.fifth_bits);
  for (int i = 0; i < 16; ++i) {
    const int low = (block.quants[i] & 0xf) | static_cast<int>((fifth_bits >> i & 1) << 4);
    const int high = (block.quants[i] >> 4) | static_cast<int>((fifth_bits >> (i + 16) & 1) << 4);
    out[i] = scale * static_cast<float>(low) + minimum;
    out[i + 16] = scale * static_cast<float>(high) + minimum;
  }
}

struct SubBlock {
  float scale;
  float minimum;
};

SubBlock SubBlockOf(const uint8_t (&packed)[12], int index, float scale, float minimum) {
  const SubBlockBits bits = UnpackSubBlock(packed, index);
  return {scale * static_cast<float>(bits.scale), minimum * static_cast<float>(bits.minimum)};
}

void DequantizeBlock(const BlockQ4_K& block, float* out) {
  const float scale = block.scale.value();
  const float minimum = block.minimum.value();
  for (int pair = 0; pair < 4; ++pair) {
    const SubBlock low = SubBlockOf(block.packed_scales, 2 * pair, scale, minimum);
    const SubBlock high = SubBlockOf(block.packed_scales, 2 * pair + 1, scale, minimum);
    const uint8_t* quants = block.quants + 32 * pair;
    float* values = out + 64 * pair;
    for (int i = 0; i < 32; ++i) {
      values[i] = low.scale * static_cast<float>(quants[i] & 0xf) - low.minimum;
      values[i + 32] = high.scale * static_cast<float>(quants[i] >> 4) - high.minimum;
    }
  }
}

void DequantizeBlock(const BlockQ5_K& block, float* out) {
  const float scale = block.scale.value();
  const float minimum = block.minimum.value();
  for (int pair = 0; pair < 4; ++pair) {
    const SubBlock low = SubBlockOf(block.packed_scales, 2 * pair, scale, minimum);
    const SubBlock high = SubBlockOf(block.packed_scales, 2 * pair + 1, scale, minimum);
    const uint8_t* quants = block.quants + 32 * pair;
    float* values = out + 64 * pair;
    for (int i = 0; i < 32; ++i) {
      const int fifth_low = (block.fifth_bits[i] >> (2 * pair) & 1) << 4;
      const int fifth_high = (block.fifth_bits[i] >> (2 * pair + 1) & 1) << 4;
      values[i] = low.scale * static_cast<float>((quants[i] & 0xf) | fifth_low) - low.minimum;
      values[i + 32] =
          high.scale * static_cast<float>((quants[i] >> 4) | fifth_high) - high.minimum;
    }
  }
}

void DequantizeBlock(const BlockQ6_K& block, float* out) {
  const float scale = block.scale.value();
  for (int half = 0; half < 2; ++half) {
    for (int group = 0; group < 4; ++group) {
      const uint8_t* low_bits = block.low_bits + 64 * half + 32 * (group & 1);
      const uint8_t* high_bits = block.high_bits + 32 * half;
      const int low_shift = 4 * (group >> 1);
      float* values = out + 128 * half + 32 * group;
      for (int part = 0; part < 2; ++part) {
        const float part_scale =
            scale * static_cast<float>(block.scales[8 * half + 2 * group + part]);
        for (int i = 16 * part; i < 16 * part + 16; ++i) {
          const int low = low_bits[i] >> low_shift & 0xf;
          const int high = (high_bits[i] >> (2 * group) & 3) << 4;
          values[i] = part_scale * static_cast<float>((low | high) - 32);
        }
      }
    }
  }
}

template <typename Block>
absl::Status DequantizeAll(GgmlType type, std::span<const std::byte> blocks,
                           std::span<float> values) {
  static_assert(alignof(Block) == 1);
  const size_t num_blocks = blocks.size() / sizeof(Block);
  if (blocks.size() % sizeof(Block) != 0 || values.size() != num_blocks * Block::kNumElements) {
    return InvalidArgument("{}: {} bytes do not hold {} values (blocks of {} bytes and {} values)",
                           GgmlTypeName(type), blocks.size(), values.size(), sizeof(Block),
                           Block::kNumElements);
  }
  const auto* block = reinterpret_cast<const Block*>(blocks.data());
  float* out = values.data();
  for (size_t i = 0; i < num_blocks; ++i) DequantizeBlock(block[i], out + i * Block::kNumElements);
  return absl::OkStatus();
}

}  // namespace

bool CanDequantize(GgmlType type) { return Dequantize(type, {}, {}).ok(); }

absl::Status Dequantize(GgmlType type, std::span<const std::byte> blocks, std::span<float> values) {
  switch (type) {
    case GgmlType::kF32:
      return DequantizeAll<BlockF32>(type, blocks, values);
    case GgmlType::kF16:
      return DequantizeAll<BlockF16>(type, blocks, values);
    case GgmlType::kBF16:
      return DequantizeAll<BlockBF16>(type, blocks, values);
    case GgmlType::kQ8_0:
      return DequantizeAll<BlockQ8_0>(type, blocks, values);
    case GgmlType::kQ4_0:
      return DequantizeAll<BlockQ4_0>(type, blocks, values);
    case GgmlType::kQ4_1:
      return DequantizeAll<BlockQ4_1>(type, blocks, values);
    case GgmlType::kQ5_0:
      return DequantizeAll<BlockQ5_0>(type, blocks, values);
    case GgmlType::kQ5_1:
      return DequantizeAll<BlockQ5_1>(type, blocks, values);
    case GgmlType::kQ4_K:
      return DequantizeAll<BlockQ4_K>(type, blocks, values);
    case GgmlType::kQ5_K:
      return DequantizeAll<BlockQ5_K>(type, blocks, values);
    case GgmlType::kQ6_K:
      return DequantizeAll<BlockQ6_K>(type, blocks, values);
    default:
      return Unimplemented(
          "{} cannot be dequantised; expected F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, "
          "Q5_K or Q6_K",
          GgmlTypeName(type));
  }
}

}  // namespace lockstep::kernels
