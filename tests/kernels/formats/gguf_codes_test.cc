#include "kernels/formats/gguf_codes/gguf_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/model_files/safetensors.h"
#include "kernels/core/bfloat16.h"
#include "kernels/formats/stack_rows.h"
#include "kernels/quant/dequantize.h"
#include "tests/common/status_matchers.h"
#include "tests/kernels/formats/module_files.h"

namespace lockstep::kernels {
namespace {

using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A type and where the fp16 of its blocks lie.
struct TypeCase {
  GgmlType type;
  CodeKind kind;
  std::vector<size_t> halves;
};

const std::vector<TypeCase>& TypeCases() {
  static const auto* const cases = new std::vector<TypeCase>{
      {GgmlType::kQ8_0, CodeKind::kInt8, {0}},       {GgmlType::kQ4_0, CodeKind::kInt4, {0}},
      {GgmlType::kQ4_1, CodeKind::kInt4Min, {0, 2}}, {GgmlType::kQ5_0, CodeKind::kInt5, {0}},
      {GgmlType::kQ5_1, CodeKind::kInt5Min, {0, 2}}, {GgmlType::kQ4_K, CodeKind::kInt4Min, {0, 2}},
      {GgmlType::kQ5_K, CodeKind::kInt5Min, {0, 2}}, {GgmlType::kQ6_K, CodeKind::kInt6, {208}},
  };
  return *cases;
}

// Zeros, subnormal numbers, the smallest normal one, 1, and the largest, of both signs.
constexpr uint16_t kOddHalves[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400,
                                   0x8400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x2C5D, 0xAC5D};

struct Blocks {
  const TypeCase& type;
  uint64_t rows;
  uint64_t columns;
  std::vector<std::byte> bytes;

  GgufTensor View() const {
    return {.name = "t", .type = type.type, .shape = {rows, columns}, .data = bytes};
  }
  size_t num_blocks() const {
    return rows * columns / static_cast<uint64_t>(GgmlTypeBlockSize(type.type)->num_elements);
  }
  size_t block_bytes() const { return bytes.size() / num_blocks(); }
};

void SetHalf(Blocks* blocks, size_t block, size_t at, uint16_t half) {
  const size_t begin = block * blocks->block_bytes() + at;
  blocks->bytes[begin] = static_cast<std::byte>(half);
  blocks->bytes[begin + 1] = static_cast<std::byte>(half >> 8);
}

// Random codes and small scales. The fp16 are odd ones, or else of random bits.
Blocks RandomBlocks(const TypeCase& type, uint64_t rows, uint64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  Blocks blocks{.type = type, .rows = rows, .columns = columns, .bytes = {}};
  blocks.bytes.resize(blocks.num_blocks() *
                      static_cast<uint64_t>(GgmlTypeBlockSize(type.type)->num_bytes));
  for (std::byte& byte : blocks.bytes) byte = static_cast<std::byte>(random());
  for (size_t block = 0; block < blocks.num_blocks(); ++block) {
    for (const size_t at : type.halves) {
      auto half = static_cast<uint16_t>(random());
      if (random() % 2 == 0) half = kOddHalves[random() % std::size(kOddHalves)];
      if ((half & 0x7C00) == 0x7C00) half ^= 0x4000;  // neither infinite nor NaN
      SetHalf(&blocks, block, at, half);
    }
  }
  return blocks;
}

// What loading the tensor as bf16 gives, but +0 for -0.
std::vector<uint16_t> ConvertedBits(const Blocks& blocks) {
  std::vector<float> values(blocks.rows * blocks.columns);
  EXPECT_THAT(Dequantize(blocks.type.type, blocks.bytes, values), IsOk());
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(ToBFloat16(value + 0.0f).bits);
  return bits;
}

std::vector<uint16_t> DecodedBits(const Blocks& blocks) {
  const absl::StatusOr<QuantizedMatrix> matrix = DecodeGgufCodes(blocks.View());
  EXPECT_THAT(matrix, IsOk());
  return matrix.ok() ? ValueBits(*matrix) : std::vector<uint16_t>();
}

TEST(GgufCodesTest, ValuesAreThoseOfTheConversionAtLoad) {
  for (const TypeCase& type : TypeCases()) {
    SCOPED_TRACE(GgmlTypeName(type.type));
    EXPECT_TRUE(HasCodes(type.type));
    for (const uint32_t seed : {1, 2, 3}) {
      const Blocks blocks = RandomBlocks(type, 61, 512, seed);
      EXPECT_EQ(DecodedBits(blocks), ConvertedBits(blocks));
    }
  }
}

// Blocks and values of gguf-py, which the conversion at load is tested with too.
TEST(GgufCodesTest, ValuesAreThoseOfGgufPy) {
  const absl::StatusOr<SafetensorsFile> golden =
      SafetensorsFile::Open("tests/golden/quant/quant.safetensors");
  ASSERT_THAT(golden, IsOk());
  for (const TypeCase& type : TypeCases()) {
    const std::string name = GgmlTypeName(type.type);
    SCOPED_TRACE(name);
    const SafetensorsTensor* const blocks = golden->Find(name + ".blocks");
    const SafetensorsTensor* const values = golden->Find(name + ".values");
    ASSERT_NE(blocks, nullptr);
    ASSERT_NE(values, nullptr);
    std::vector<uint16_t> expected;
    for (const float value : ElementsOf<float>(values->data)) {
      expected.push_back(ToBFloat16(value + 0.0f).bits);
    }
    const absl::StatusOr<QuantizedMatrix> matrix = DecodeGgufCodes(
        {.name = "t", .type = type.type, .shape = {1, expected.size()}, .data = blocks->data});
    ASSERT_THAT(matrix, IsOk());
    EXPECT_EQ(ValueBits(*matrix), expected);
  }
}

TEST(GgufCodesTest, EveryPairOfOddScalesHasTheValuesOfTheConversionAtLoad) {
  for (const TypeCase& type : TypeCases()) {
    SCOPED_TRACE(GgmlTypeName(type.type));
    Blocks blocks = RandomBlocks(type, std::size(kOddHalves) * std::size(kOddHalves), 256, 4);
    const size_t of_row = blocks.num_blocks() / blocks.rows;
    for (size_t block = 0; block < blocks.num_blocks(); ++block) {
      const size_t row = block / of_row;
      const uint16_t halves[] = {kOddHalves[row % std::size(kOddHalves)],
                                 kOddHalves[row / std::size(kOddHalves)]};
      for (size_t i = 0; i < type.halves.size(); ++i) {
        SetHalf(&blocks, block, type.halves[i], halves[i]);
      }
    }
    EXPECT_EQ(DecodedBits(blocks), ConvertedBits(blocks));
  }
}

TEST(GgufCodesTest, MatricesHaveTheCodesOfTheirType) {
  for (const TypeCase& type : TypeCases()) {
    SCOPED_TRACE(GgmlTypeName(type.type));
    const absl::StatusOr<QuantizedMatrix> matrix =
        DecodeGgufCodes(RandomBlocks(type, 3, 512, 5).View());
    ASSERT_THAT(matrix, IsOk());
    const bool is_k = type.type == GgmlType::kQ4_K || type.type == GgmlType::kQ5_K ||
                      type.type == GgmlType::kQ6_K;
    EXPECT_EQ(matrix->kind, type.kind);
    EXPECT_EQ(matrix->n, 3);
    EXPECT_EQ(matrix->k, 512);
    EXPECT_EQ(matrix->group_columns, type.type == GgmlType::kQ6_K ? 16 : 32);
    EXPECT_EQ(matrix->block_columns, is_k ? 256 : 0);
    EXPECT_EQ(matrix->codes.size(), size_t{3 * 512});
    EXPECT_EQ(matrix->scales.size(), static_cast<size_t>(3 * matrix->num_groups()));
    EXPECT_EQ(matrix->minima.size(), HasMinimum(type.kind) ? matrix->scales.size() : 0);
    EXPECT_EQ(matrix->block_scales.size(), is_k ? size_t{6} : size_t{0});
    EXPECT_EQ(matrix->block_minima.size(), is_k && HasMinimum(type.kind) ? size_t{6} : size_t{0});
  }
}

TEST(GgufCodesTest, WrongTensorsAreRefused) {
  for (const TypeCase& type : TypeCases()) {
    SCOPED_TRACE(GgmlTypeName(type.type));
    const Blocks blocks = RandomBlocks(type, 2, 512, 6);
    const size_t last = blocks.num_blocks() - 1;
    for (size_t i = 0; i < type.halves.size(); ++i) {
      Blocks bad = blocks;
      SetHalf(&bad, last, type.halves[i], 0xFC00);
      EXPECT_THAT(DecodeGgufCodes(bad.View()),
                  HasError(kInvalid, HasSubstr(i == 0 ? "tensor t: the scale of row 1, block "
                                                      : "tensor t: the minimum of row 1, block ")));
    }
    GgufTensor tensor = blocks.View();
    tensor.shape = {1024};
    EXPECT_THAT(DecodeGgufCodes(tensor), HasError(kInvalid, HasSubstr("expected a matrix")));
    tensor.shape = {2, 528};
    EXPECT_THAT(DecodeGgufCodes(tensor), HasError(kInvalid, HasSubstr("columns in multiples of")));
    tensor = blocks.View();
    tensor.data = tensor.data.first(tensor.data.size() - 1);
    EXPECT_THAT(DecodeGgufCodes(tensor), HasError(kInvalid, HasSubstr("expected a matrix")));
  }
  EXPECT_FALSE(HasCodes(GgmlType::kF16));
}

TEST(GgufCodesTest, StackedPartsKeepTheirValues) {
  for (const TypeCase& type : TypeCases()) {
    SCOPED_TRACE(GgmlTypeName(type.type));
    std::vector<QuantizedMatrix> parts;
    std::vector<uint16_t> expected;
    for (const uint32_t seed : {7, 8}) {
      const Blocks blocks = RandomBlocks(type, seed, 512, seed);
      parts.push_back(*DecodeGgufCodes(blocks.View()));
      const std::vector<uint16_t> bits = ConvertedBits(blocks);
      expected.insert(expected.end(), bits.begin(), bits.end());
    }
    const absl::StatusOr<QuantizedMatrix> stacked = StackRows(parts);
    ASSERT_THAT(stacked, IsOk());
    EXPECT_EQ(ValueBits(*stacked), expected);
    if (type.kind == CodeKind::kInt6) continue;
    EXPECT_EQ(ValueBits(WithGroupColumns(*stacked, 16)), expected);
  }
}

TEST(GgufCodesTest, PartsWithOtherLevelsAreRefused) {
  const auto part = [](GgmlType type) {
    for (const TypeCase& c : TypeCases()) {
      if (c.type == type) return *DecodeGgufCodes(RandomBlocks(c, 2, 256, 9).View());
    }
    return QuantizedMatrix();
  };
  const std::vector<QuantizedMatrix> parts = {part(GgmlType::kQ4_1), part(GgmlType::kQ4_K)};
  EXPECT_THAT(StackRows(parts), HasError(kInvalid, HasSubstr("different levels")));
}

// Each fault is what a decoder with that mistake would read: the bytes are changed as if it were
// right.
struct Fault {
  const char* name;
  GgmlType type;
  std::function<void(uint8_t* block)> plant;
};

void SwapNibbles(uint8_t* bytes, int count) {
  for (int i = 0; i < count; ++i) bytes[i] = static_cast<uint8_t>(bytes[i] << 4 | bytes[i] >> 4);
}

const Fault kFaults[] = {
    {"Q4_0 nibbles", GgmlType::kQ4_0, [](uint8_t* block) { SwapNibbles(block + 2, 16); }},
    {"Q4_1 sign of the minimum", GgmlType::kQ4_1, [](uint8_t* block) { block[3] ^= 0x80; }},
    {"Q4_1 scale and minimum", GgmlType::kQ4_1,
     [](uint8_t* block) { std::swap_ranges(block, block + 2, block + 2); }},
    {"Q5_0 fifth bits", GgmlType::kQ5_0,
     [](uint8_t* block) { std::rotate(block + 2, block + 3, block + 6); }},
    {"Q5_1 fifth bits", GgmlType::kQ5_1,
     [](uint8_t* block) { std::rotate(block + 4, block + 5, block + 8); }},
    {"Q4_K nibbles", GgmlType::kQ4_K, [](uint8_t* block) { SwapNibbles(block + 16, 128); }},
    {"Q4_K sign of the minimum", GgmlType::kQ4_K, [](uint8_t* block) { block[3] ^= 0x80; }},
    {"Q4_K scales of the next group", GgmlType::kQ4_K,
     [](uint8_t* block) { std::rotate(block + 4, block + 5, block + 8); }},
    {"Q4_K minima of the next group", GgmlType::kQ4_K,
     [](uint8_t* block) { std::rotate(block + 8, block + 9, block + 12); }},
    {"Q5_K fifth bits", GgmlType::kQ5_K,
     [](uint8_t* block) {
       for (int i = 16; i < 48; ++i) {
         block[i] = static_cast<uint8_t>(block[i] << 1 | block[i] >> 7);
       }
     }},
    {"Q6_K nibbles", GgmlType::kQ6_K, [](uint8_t* block) { SwapNibbles(block, 128); }},
    {"Q6_K high bits", GgmlType::kQ6_K,
     [](uint8_t* block) {
       for (int i = 128; i < 192; ++i) {
         block[i] = static_cast<uint8_t>(block[i] << 2 | block[i] >> 6);
       }
     }},
    {"Q6_K scales of the next group", GgmlType::kQ6_K,
     [](uint8_t* block) { std::rotate(block + 192, block + 193, block + 208); }},
};

TEST(GgufCodesTest, PlantedFaultsChangeTheValues) {
  for (const Fault& fault : kFaults) {
    for (const TypeCase& type : TypeCases()) {
      if (type.type != fault.type) continue;
      const Blocks blocks = RandomBlocks(type, 5, 512, 10);
      Blocks changed = blocks;
      for (size_t i = 0; i < changed.num_blocks(); ++i) {
        fault.plant(reinterpret_cast<uint8_t*>(changed.bytes.data()) + i * changed.block_bytes());
      }
      EXPECT_NE(DecodedBits(changed), ConvertedBits(blocks)) << fault.name;
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
