// Decode steps of few rows, whose layers run in one kernel (kernels/decoder/decode_layers.h),
// against the same steps op by op: the same bits of every logit and of the whole KV pool.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/decoder/decode_layers.h"
#include "kernels/decoder/decode_layers_plan.h"
#include "kernels/decoder/decode_layers_words.h"
#include "tests/common/status_matchers.h"
#include "tests/support/cuda_test.h"
#include "worker/cuda/forward_model.h"
#include "worker/cuda/model.h"

namespace lockstep::worker {
namespace {

struct Shape {
  std::string name;
  std::string family;  // llama, qwen2, qwen3 or gpt2
  int hidden_size;
  int intermediate_size;
  int num_layers;
  int num_heads;
  int num_kv_heads;
  int head_dim;
  int max_rows;  // that one call is expected to take
};

constexpr uint32_t kVocabSize = 512;
constexpr uint32_t kMaxContext = 8704;
constexpr uint32_t kBlocksOfSequence = kMaxContext / 16;
constexpr uint32_t kNumSequences = kernels::kMaxDecodeLayersRows;

nlohmann::json Gpt2Config(const Shape& shape) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"vocab_size", kVocabSize},
          {"n_embd", shape.hidden_size},
          {"n_inner", shape.intermediate_size},
          {"n_layer", shape.num_layers},
          {"n_head", shape.num_heads},
          {"n_positions", kMaxContext},
          {"layer_norm_epsilon", 1e-5},
          {"activation_function", "gelu_new"},
          {"eos_token_id", 1}};
}

nlohmann::json LlamaConfig(const Shape& shape) {
  const std::string architecture = shape.family == "llama"   ? "LlamaForCausalLM"
                                   : shape.family == "qwen2" ? "Qwen2ForCausalLM"
                                                             : "Qwen3ForCausalLM";
  return {{"architectures", {architecture}},
          {"model_type", shape.family},
          {"dtype", "bfloat16"},
          {"vocab_size", kVocabSize},
          {"hidden_size", shape.hidden_size},
          {"intermediate_size", shape.intermediate_size},
          {"num_hidden_layers", shape.num_layers},
          {"num_attention_heads", shape.num_heads},
          {"num_key_value_heads", shape.num_kv_heads},
          {"head_dim", shape.head_dim},
          {"max_position_embeddings", kMaxContext},
          {"rms_norm_eps", 1e-6},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", true},
          {"hidden_act", "silu"},
          {"eos_token_id", 1}};
}

std::string WriteConfig(const Shape& shape) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("fused-layers-" + shape.name);
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json")
      << (shape.family == "gpt2" ? Gpt2Config(shape) : LlamaConfig(shape));
  return folder;
}

// A model with the blocks of kNumSequences sequences, interleaved; unwritten places hold NaN.
struct Side {
  static Side Load(const std::string& folder, int64_t max_fused_rows,
                   int max_multiprocessors = std::numeric_limits<int>::max()) {
    Side side;
    auto model = LoadCudaModel(folder, {.num_kv_blocks = kNumSequences * kBlocksOfSequence,
                                        .max_slots = 8,
                                        .max_step_tokens = 2048,
                                        .max_logits_rows = 8,
                                        .random_weights = true,
                                        .max_fused_rows = max_fused_rows,
                                        .max_multiprocessors = max_multiprocessors});
    LOCKSTEP_CHECK(model.ok(), "{}", Message(model.status()));
    side.model = *std::move(model);
    const std::span<std::byte> kv = side.model->kv_bytes();
    LOCKSTEP_CHECK(cudaMemset(kv.data(), 0xFF, kv.size()) == cudaSuccess &&
                       cudaDeviceSynchronize() == cudaSuccess,
                   "the KV pool cannot be poisoned");
    auto forward = CudaForwardModel::Create(*side.model);
    LOCKSTEP_CHECK(forward.ok(), "{}", Message(forward.status()));
    side.forward = *std::move(forward);
    return side;
  }

  std::vector<float> Forward(const ForwardBatch& batch) const {
    std::vector<float> logits(batch.logits_tokens.size() * kVocabSize);
    forward->Forward(batch, logits);
    return logits;
  }
  std::vector<std::byte> KvBytes() const {
    const std::span<std::byte> kv = model->kv_bytes();
    std::vector<std::byte> bytes(kv.size());
    LOCKSTEP_CHECK(
        cudaMemcpy(bytes.data(), kv.data(), kv.size(), cudaMemcpyDeviceToHost) == cudaSuccess,
        "the KV pool cannot be read");
    return bytes;
  }

  std::unique_ptr<CudaModel> model;
  std::unique_ptr<CudaForwardModel> forward;
};

class FusedLayersCudaTest : public testing::CudaTest, public ::testing::WithParamInterface<Shape> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    const std::string folder = WriteConfig(GetParam());
    fused_ = Side::Load(folder, kernels::kMaxDecodeLayersRows);
    plain_ = Side::Load(folder, /*max_fused_rows=*/0);
    for (uint32_t i = 0; i < kNumSequences; ++i) {
      for (uint32_t block = 0; block < kBlocksOfSequence; ++block) {
        block_tables_[i].push_back(block * kNumSequences + i);
      }
    }
  }
  void TearDown() override {
    fused_ = {};
    plain_ = {};
    CudaTest::TearDown();
  }

  // Runs `num_tokens` random tokens of every sequence named, on both sides.
  void Step(const std::vector<uint32_t>& sequences, const std::vector<uint32_t>& num_tokens) {
    std::vector<TokenId> tokens;
    std::vector<ForwardRow> rows;
    std::vector<uint32_t> logits_tokens;
    for (size_t i = 0; i < sequences.size(); ++i) {
      uint32_t& length = lengths_[sequences[i]];
      rows.push_back({.first_token = static_cast<uint32_t>(tokens.size()),
                      .num_tokens = num_tokens[i],
                      .first_position = length,
                      .block_tables = {&block_tables_[sequences[i]], 1}});
      for (uint32_t j = 0; j < num_tokens[i]; ++j) tokens.push_back(random_() % kVocabSize);
      logits_tokens.push_back(static_cast<uint32_t>(tokens.size() - 1));
      length += num_tokens[i];
    }
    const ForwardBatch batch = {tokens, rows, logits_tokens};
    const std::vector<float> fused = fused_.Forward(batch);
    const std::vector<float> plain = plain_.Forward(batch);
    for (size_t i = 0; i < fused.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(fused[i]), std::bit_cast<uint32_t>(plain[i]))
          << "logit " << i % kVocabSize << " of row " << i / kVocabSize << " of " << rows.size()
          << ", at position " << rows[i / kVocabSize].first_position << ": " << fused[i]
          << " against " << plain[i];
    }
  }

  Side fused_;
  Side plain_;
  std::vector<BlockId> block_tables_[kNumSequences];
  uint32_t lengths_[kNumSequences] = {};
  std::mt19937 random_{1};
};

TEST_P(FusedLayersCudaTest, GiveTheBitsOfTheOps) {
  const Shape& shape = GetParam();
  const auto style =
      shape.family == "gpt2" ? kernels::DecoderStyle::kGpt2 : kernels::DecoderStyle::kLlama;
  EXPECT_EQ(kernels::DecodeLayersMaxRows({.style = style,
                                          .num_layers = shape.num_layers,
                                          .hidden_size = shape.hidden_size,
                                          .intermediate_size = shape.intermediate_size,
                                          .num_heads = shape.num_heads,
                                          .num_kv_heads = shape.num_kv_heads,
                                          .head_dim = shape.head_dim}),
            shape.max_rows);
  // The first token of a sequence decodes too. Then lengths around borders of tiles, pages, splits.
  for (uint32_t i = 0; i < kNumSequences; ++i) Step({i}, {1});
  const std::vector<uint32_t> prompts = {62, 506, 1300, 2040};
  for (uint32_t i = 0; i < kNumSequences; ++i) Step({i}, {prompts[i]});
  for (int step = 0; step < 12; ++step) {
    std::vector<uint32_t> sequences = {0, 1, 2, 3};
    std::shuffle(sequences.begin(), sequences.end(), random_);
    for (uint32_t begin = 0; begin < kNumSequences;) {
      const uint32_t count = std::min<uint32_t>(1 + random_() % 4, kNumSequences - begin);
      Step({sequences.begin() + begin, sequences.begin() + begin + count},
           std::vector<uint32_t>(count, 1));
      if (HasFatalFailure()) return;
      begin += count;
    }
  }
  EXPECT_EQ(fused_.KvBytes(), plain_.KvBytes());
  EXPECT_GE(fused_.model->num_fused_passes(), 12u);
  EXPECT_EQ(plain_.model->num_fused_passes(), 0u);
}

// Many splits of a row, and positions past 8,192, from where on splits are longer.
TEST_P(FusedLayersCudaTest, LongContextsGiveTheBitsOfTheOps) {
  for (const uint32_t num_tokens : {2048, 2048, 2048, 2046}) Step({0}, {num_tokens});
  for (const uint32_t num_tokens : {2048, 2000}) Step({1}, {num_tokens});
  for (int step = 0; step < 4; ++step) {
    Step({0}, {1});
    Step({1, 0}, {1, 1});
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(fused_.model->num_fused_passes(), 4u);
}

// Devices of the same kind with fewer multiprocessors: every block gets more tiles, in other
// passes. With 7 that holds for the smallest shapes, too.
TEST_P(FusedLayersCudaTest, FewerMultiprocessorsGiveTheSameBits) {
  for (const int num_multiprocessors : {114, 78, 7}) {
    SCOPED_TRACE(num_multiprocessors);
    fused_ = {};  // first, because both need room
    fused_ =
        Side::Load(WriteConfig(GetParam()), kernels::kMaxDecodeLayersRows, num_multiprocessors);
    std::fill(std::begin(lengths_), std::end(lengths_), 0);
    // A step takes 2,048 tokens.
    Step({0, 1, 2}, {62, 506, 1300});
    Step({3}, {2040});
    for (int step = 0; step < 4; ++step) {
      Step({0}, {1});
      Step({1, 2}, {1, 1});
      Step({3, 2, 1}, {1, 1, 1});
      Step({0, 3, 2, 1}, {1, 1, 1, 1});
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(fused_.model->num_fused_passes(), 4u);
  }
}

// What the words held when their tags were used before must not pass for a result.
TEST_P(FusedLayersCudaTest, TagsThatRunOutBeginAgain) {
  const uint32_t num_layers = static_cast<uint32_t>(GetParam().num_layers);
  Step({0, 1, 2, 3}, {20, 21, 22, 23});
  const std::span<uint64_t> scratch = fused_.model->fused_scratch();
  std::vector<uint64_t> words(scratch.size());
  // As a day of calls might leave them: tags of the calls to come, and no numbers.
  for (size_t i = kernels::DecodeLayersWords::kHeaderWords; i < words.size(); ++i) {
    words[i] = static_cast<uint64_t>(1 + i % (3 * num_layers)) << 32 | 0x7FC07FC0u;
  }
  words[0] = kernels::DecodeLayersWords::kLastTag - 2 * num_layers;
  ASSERT_EQ(cudaMemcpy(scratch.data(), words.data(), scratch.size_bytes(), cudaMemcpyHostToDevice),
            cudaSuccess);
  for (int step = 0; step < 8; ++step) {
    for (uint32_t i = 0; i < kNumSequences; ++i) Step({i}, {1});
    if (HasFatalFailure()) return;
  }
  ASSERT_EQ(cudaMemcpy(words.data(), scratch.data(), sizeof(words[0]), cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(words[0], uint64_t{32 - 3} * num_layers) << "the third call was the last of its tags";
}

TEST(FusedLayersTest, RowsLongerThanABlockTakesHaveNoKernel) {
  kernels::DecodeLayersShape shape = {.num_layers = 1,
                                      .hidden_size = 2048,
                                      .intermediate_size = 6144,
                                      .num_heads = 16,
                                      .num_kv_heads = 8,
                                      .head_dim = 128};
  EXPECT_EQ(kernels::DecodeLayersMaxRows(shape), kernels::kMaxDecodeLayersRows);
  shape.hidden_size += 64;
  EXPECT_EQ(kernels::DecodeLayersMaxRows(shape), 0);
}

TEST(FusedLayersTest, KeysCountByTheirBytes) {
  constexpr int64_t kFewKvBytes = int64_t{32} << 20;
  const kernels::DecodeLayersShape qwen3 = {.num_kv_heads = 8, .head_dim = 128};
  EXPECT_EQ(kernels::DecodeLayersFasterKeys(qwen3), kFewKvBytes / 4096);
  const kernels::DecodeLayersShape smollm2 = {.num_kv_heads = 3, .head_dim = 64};
  EXPECT_EQ(kernels::DecodeLayersFasterKeys(smollm2), kFewKvBytes / 768);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedLayersCudaTest,
    ::testing::Values(Shape{"tiny_llama", "llama", 64, 128, 3, 4, 2, 16, 4},
                      Shape{"one_layer", "llama", 64, 128, 1, 4, 2, 16, 4},
                      Shape{"tiny_qwen2_with_bias", "qwen2", 128, 192, 2, 8, 1, 16, 4},
                      Shape{"qwen3_0_6b", "qwen3", 1024, 3072, 3, 16, 8, 128, 4},
                      Shape{"smollm2", "llama", 576, 1536, 3, 9, 3, 64, 4},
                      Shape{"qwen2_0_5b", "qwen2", 896, 4864, 2, 14, 2, 64, 4},
                      Shape{"tiny_gpt2", "gpt2", 64, 256, 3, 4, 4, 16, 4},
                      Shape{"gpt2_124m", "gpt2", 768, 3072, 3, 12, 12, 64, 4},
                      Shape{"qwen3_1_7b", "qwen3", 2048, 6144, 3, 16, 8, 128, 4}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::worker
