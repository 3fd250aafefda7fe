#include "kernels/decoder/decode_layers_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/decoder/decode_layers_words.h"

namespace lockstep::kernels {
namespace {

struct NamedShape {
  std::string name;
  DecodeLayersShape shape;
};

constexpr DecodeLayersShape kSmolLm2 = {.num_layers = 30,
                                        .hidden_size = 576,
                                        .intermediate_size = 1536,
                                        .num_heads = 9,
                                        .num_kv_heads = 3,
                                        .head_dim = 64};
constexpr DecodeLayersShape kGpt2 = {.style = DecoderStyle::kGpt2,
                                     .num_layers = 12,
                                     .hidden_size = 768,
                                     .intermediate_size = 3072,
                                     .num_heads = 12,
                                     .num_kv_heads = 12,
                                     .head_dim = 64};
constexpr DecodeLayersShape kQwen3 = {.num_layers = 28,
                                      .hidden_size = 1024,
                                      .intermediate_size = 3072,
                                      .num_heads = 16,
                                      .num_kv_heads = 8,
                                      .head_dim = 128};
constexpr DecodeLayersShape kTiny = {.num_layers = 2,
                                     .hidden_size = 64,
                                     .intermediate_size = 128,
                                     .num_heads = 4,
                                     .num_kv_heads = 2,
                                     .head_dim = 16};

constexpr int kMultiprocessors[] = {132, 114, 78, 5};

class DecodeLayersPlanTest : public ::testing::TestWithParam<NamedShape> {
 protected:
  // The places of all words of the spread rows.
  static std::vector<int64_t> SpreadPlaces(const DecodeLayersShape& shape) {
    const DecodeLayersWords words(shape);
    std::vector<int64_t> places;
    for (int64_t row = 0; row < kMaxDecodeLayersRows; ++row) {
      for (int word = 0; word < shape.q_size() / 2; ++word) {
        places.push_back(words.attention + row * SpreadRow::Words(shape.q_size() / 2) +
                         SpreadRow::Offset(word));
      }
      for (int word = 0; word < shape.intermediate_size / 2; ++word) {
        places.push_back(words.activated + row * SpreadRow::Words(shape.intermediate_size / 2) +
                         SpreadRow::Offset(word));
      }
      for (int word = 0; word < shape.hidden_size / 2; ++word) {
        const int64_t place = row * NormRow::Words(shape.hidden_size) + NormRow::Offset(word);
        places.push_back(words.attention_delta + place);
        places.push_back(words.mlp_delta + place);
      }
    }
    return places;
  }
};

TEST_P(DecodeLayersPlanTest, EveryWordHasAPlaceOfItsOwn) {
  const DecodeLayersShape& shape = GetParam().shape;
  const DecodeLayersWords words(shape);
  std::set<int64_t> taken;
  for (const int64_t place : SpreadPlaces(shape)) {
    EXPECT_TRUE(taken.insert(place).second) << place;
    EXPECT_LT(place, words.partials);
  }
  for (int64_t i = 0; i < kMaxDecodeLayersRows * shape.qkv_size() / 2; ++i) {
    EXPECT_TRUE(taken.insert(words.qkv + i).second) << words.qkv + i;
  }
  EXPECT_GE(*taken.begin(), DecodeLayersWords::kHeaderWords);
}

TEST_P(DecodeLayersPlanTest, ALineHasSpreadWordsInOneSectorOnly) {
  std::map<int64_t, int64_t> sector_of_line;
  for (const int64_t place : SpreadPlaces(GetParam().shape)) {
    const int64_t sector = place / SpreadRow::kSectorWords;
    const auto [line, is_new] = sector_of_line.emplace(place / SpreadRow::kLineWords, sector);
    EXPECT_EQ(line->second, sector);
  }
}

TEST_P(DecodeLayersPlanTest, PairsOfWordsLieTogether) {
  const DecodeLayersShape& shape = GetParam().shape;
  const DecodeLayersWords words(shape);
  for (const int64_t first :
       {words.qkv, words.attention, words.attention_delta, words.activated, words.mlp_delta,
        words.partials, SpreadRow::Words(shape.q_size() / 2),
        SpreadRow::Words(shape.intermediate_size / 2), NormRow::Words(shape.hidden_size)}) {
    EXPECT_EQ(first % SpreadRow::kLineWords, 0);
  }
  for (int word = 0; word < shape.intermediate_size / 2; word += 2) {
    EXPECT_EQ(SpreadRow::Offset(word) % 2, 0);
    EXPECT_EQ(SpreadRow::Offset(word + 1), SpreadRow::Offset(word) + 1);
  }
  for (int word = 0; word < shape.hidden_size / 2; word += NormRow::kGroupWords) {
    EXPECT_EQ(NormRow::Offset(word) % 2, 0);
    EXPECT_EQ(NormRow::Offset(word + 1), NormRow::Offset(word) + 1);
    EXPECT_EQ(NormRow::Offset(word + 2), NormRow::Offset(word) + NormRow::kSecondHalf);
    EXPECT_EQ(NormRow::Offset(word + 3), NormRow::Offset(word + 2) + 1);
  }
}

TEST_P(DecodeLayersPlanTest, EveryTileHasOneBlock) {
  const DecodeLayersShape& shape = GetParam().shape;
  for (const int num_multiprocessors : kMultiprocessors) {
    const CudaStream stream = {.num_multiprocessors = num_multiprocessors};
    const int product_blocks = ProductBlocks(stream, shape);
    EXPECT_GT(product_blocks, 0);
    EXPECT_LE(product_blocks, DecodeLayersBlocks(stream));
    for (int index = 0; index < kNumLayerProducts; ++index) {
      const auto product = static_cast<LayerProduct>(index);
      const ProductPlan plan(shape, product, product_blocks, nullptr, nullptr);
      int next = 0;
      for (int block = 0; block < product_blocks; ++block) {
        EXPECT_EQ(plan.FirstTile(block), next);
        next += plan.NumTiles(block);
      }
      EXPECT_EQ(next * kTileOutputs, ProductShape(shape, product).outputs);
      for (int block = product_blocks; block < DecodeLayersBlocks(stream); ++block) {
        EXPECT_EQ(plan.NumTiles(block), 0) << block;
      }
    }
  }
}

// decode_layers_cuda.cu says why: the tile of gate and up tells others that the block has read the
// words of the residual.
TEST_P(DecodeLayersPlanTest, ABlockWithATileOfQkvHasOneOfGateAndUp) {
  const DecodeLayersShape& shape = GetParam().shape;
  for (const int num_multiprocessors : kMultiprocessors) {
    const int product_blocks = ProductBlocks({.num_multiprocessors = num_multiprocessors}, shape);
    const ProductPlan qkv(shape, kQkv, product_blocks, nullptr, nullptr);
    const ProductPlan mlp_input(shape, kMlpInput, product_blocks, nullptr, nullptr);
    for (int block = 0; block < product_blocks; ++block) {
      EXPECT_TRUE(qkv.NumTiles(block) == 0 || mlp_input.NumTiles(block) > 0) << block;
    }
    // These blocks clear padding rows (layer_attention.cuh).
    for (int block = 0; block < std::min<int>(kMaxDecodeLayersRows, product_blocks); ++block) {
      EXPECT_GT(mlp_input.NumTiles(block), 0) << block;
    }
  }
}

TEST(DecodeLayersRowsTest, LargerLayersHaveFewerRowsInOneKernel) {
  EXPECT_EQ(FasterRows(kSmolLm2), 4);
  EXPECT_EQ(FasterRows(kQwen3), 4);
  EXPECT_EQ(FasterRows(kGpt2), 2);
  DecodeLayersShape wide = kQwen3;
  wide.intermediate_size *= 2;
  ASSERT_EQ(LayerWeightBytes(wide), int64_t{48} << 20);
  EXPECT_EQ(FasterRows(wide), 2);
  constexpr DecodeLayersShape kQwen3With8B = {.num_layers = 36,
                                              .hidden_size = 4096,
                                              .intermediate_size = 12288,
                                              .num_heads = 32,
                                              .num_kv_heads = 8,
                                              .head_dim = 128};
  EXPECT_EQ(FasterRows(kQwen3With8B), 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, DecodeLayersPlanTest,
                         ::testing::Values(NamedShape{"smollm2", kSmolLm2},
                                           NamedShape{"gpt2", kGpt2}, NamedShape{"qwen3", kQwen3},
                                           NamedShape{"tiny", kTiny}),
                         [](const auto& info) { return info.param.name; });

TEST(DecodeLayersBlocksTest, AllMultiprocessorsHaveOneUpToAMaximum) {
  EXPECT_EQ(DecodeLayersBlocks({.num_multiprocessors = 78}), 78);
  EXPECT_EQ(DecodeLayersBlocks({.num_multiprocessors = 200}), kMaxDecodeLayersBlocks);
}

TEST(ProductBlocksTest, NoMoreBlocksMultiplyThanAreOfUse) {
  const CudaStream h200 = {.num_multiprocessors = 132};
  EXPECT_EQ(ProductBlocks(h200, kSmolLm2), 72);  // tiles of o and down
  EXPECT_EQ(ProductBlocks(h200, kGpt2), 96);
  EXPECT_EQ(ProductBlocks(h200, kQwen3), 128);
  DecodeLayersShape wide = kSmolLm2;
  wide.intermediate_size = 16 * wide.intermediate_size;
  EXPECT_EQ(ProductBlocks(h200, wide), 132);  // bytes to read
}

TEST(ProductBlocksTest, NoMoreBlocksMultiplyThanThereAre) {
  EXPECT_EQ(ProductBlocks({.num_multiprocessors = 114}, kQwen3), 114);
  EXPECT_EQ(ProductBlocks({.num_multiprocessors = 78}, kQwen3), 78);
  EXPECT_EQ(ProductBlocks({.num_multiprocessors = 78}, kSmolLm2), 72);
}

TEST(LayerWeightBytesTest, CountsEveryProduct) {
  EXPECT_EQ(LayerWeightBytes(kGpt2), 2 * 12 * 768 * 768);
  EXPECT_EQ(LayerWeightBytes(kQwen3), 2 * (4096 * 1024 + 1024 * 2048 + 3 * 3072 * 1024));
}

}  // namespace
}  // namespace lockstep::kernels
