#include "worker/cpu/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <list>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/cpu/load_model.h"

namespace lockstep::worker {
namespace {

constexpr uint32_t kNumBlocks = 40;
constexpr uint32_t kMaxLength = 60;

std::vector<TokenId> RandomTokens(const ForwardModel& model, uint32_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<TokenId> uniform(0, model.info().vocab_size - 1);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = uniform(generator);
  return tokens;
}

// A sequence on its way through random steps, with the logits that were asked for.
struct Sequence {
  std::vector<TokenId> tokens;
  std::vector<BlockId> blocks;
  uint32_t num_done = 0;
  std::vector<float> expected;  // [tokens.size(), vocab_size], computed alone

  uint32_t num_left() const { return static_cast<uint32_t>(tokens.size()) - num_done; }
};

// Sequences with expected logits and shuffled blocks of their own.
std::vector<Sequence> MakeSequences(ForwardModel& model, uint32_t count, std::mt19937& generator) {
  std::vector<BlockId> free_blocks(kNumBlocks);
  std::iota(free_blocks.begin(), free_blocks.end(), BlockId{0});
  std::shuffle(free_blocks.begin(), free_blocks.end(), generator);
  std::vector<Sequence> sequences;
  for (uint32_t i = 0; i < count; ++i) {
    Sequence sequence;
    sequence.tokens = RandomTokens(model, 1 + generator() % kMaxLength, 10 + i);
    sequence.expected = SequenceRunner(model, sequence.tokens).RunInStepsOf(sequence.num_left());
    for (size_t block = 0; block * 16 < sequence.tokens.size(); ++block) {
      sequence.blocks.push_back(free_blocks.back());
      free_blocks.pop_back();
    }
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

// A batch, and the logits that it must give.
struct Step {
  std::vector<TokenId> tokens;
  std::list<std::vector<std::vector<BlockId>>> block_tables;  // of each row
  std::vector<ForwardRow> rows;
  std::vector<uint32_t> wanted;
  std::vector<float> expected;
};

// Takes some sequences forward by one token or by a random chunk. May be empty.
Step MakeRandomStep(std::vector<Sequence>& sequences, const ForwardModelInfo& info,
                    std::mt19937& generator) {
  const size_t vocab_size = info.vocab_size;
  Step step;
  for (Sequence& sequence : sequences) {
    if (sequence.num_left() == 0 || generator() % 3 == 0) continue;
    const uint32_t count = generator() % 2 == 0 ? 1 : 1 + generator() % sequence.num_left();
    step.rows.push_back({.first_token = static_cast<uint32_t>(step.tokens.size()),
                         .num_tokens = count,
                         .first_position = sequence.num_done,
                         .block_tables = step.block_tables.emplace_back(
                             BlockTablesAt(info, sequence.num_done, sequence.blocks))});
    for (uint32_t i = 0; i < count; ++i, ++sequence.num_done) {
      if (i + 1 == count || generator() % 4 == 0) {
        step.wanted.push_back(static_cast<uint32_t>(step.tokens.size()));
        const auto logits =
            std::span(sequence.expected).subspan(sequence.num_done * vocab_size, vocab_size);
        step.expected.insert(step.expected.end(), logits.begin(), logits.end());
      }
      step.tokens.push_back(sequence.tokens[sequence.num_done]);
    }
  }
  return step;
}

class CpuModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<ForwardModel> Load(int num_threads) {
    auto model = LoadCpuModel("tests/golden/" + GetParam(), {.num_kv_blocks = kNumBlocks,
                                                             .max_step_tokens = 256,
                                                             .max_logits_rows = 256,
                                                             .num_threads = num_threads});
    EXPECT_THAT(model, IsOk());
    return *std::move(model);
  }

  static void PoisonKv(ForwardModel& model) {
    std::ranges::fill(dynamic_cast<CpuModel&>(model).kv_pool().bytes(), std::byte{0xFF});
  }
};

TEST_P(CpuModelTest, WhatIsLeftInTheKvPoolNeverMatters) {
  const auto model = Load(2);
  const std::vector<TokenId> tokens = RandomTokens(*model, 37, 1);
  SequenceRunner runner(*model, tokens, /*first_block=*/5, /*block_stride=*/3);
  const std::vector<float> before = runner.RunInStepsOf(37);
  PoisonKv(*model);
  const std::vector<float> after = runner.RunInStepsOf(7);
  EXPECT_TRUE(IsFinite(after));
  EXPECT_TRUE(IsSameBits(after, before));
}

TEST_P(CpuModelTest, BitsDoNotDependOnTheNumberOfThreads) {
  const auto one = Load(1);
  const std::vector<TokenId> tokens = RandomTokens(*one, 50, 2);
  const std::vector<float> expected = SequenceRunner(*one, tokens).RunInStepsOf(50);
  for (const int num_threads : {2, 3, 7}) {
    const auto model = Load(num_threads);
    EXPECT_TRUE(IsSameBits(SequenceRunner(*model, tokens).RunInStepsOf(50), expected));
    EXPECT_TRUE(IsSameBits(SequenceRunner(*model, tokens).RunInStepsOf(1), expected));
  }
}

// Steps of random rows, random lengths and a random choice of wanted logits, over a poisoned pool.
TEST_P(CpuModelTest, BitsDoNotDependOnBatchMatesOrChunks) {
  const auto model = Load(2);
  std::mt19937 generator(3);
  std::vector<Sequence> sequences = MakeSequences(*model, 9, generator);
  PoisonKv(*model);
  size_t num_compared = 0;
  size_t num_mixed_steps = 0;
  while (std::ranges::any_of(sequences, [](const Sequence& s) { return s.num_left() > 0; })) {
    const Step step = MakeRandomStep(sequences, model->info(), generator);
    std::vector<float> logits(step.expected.size());
    model->Forward({.token_ids = step.tokens, .rows = step.rows, .logits_tokens = step.wanted},
                   logits);
    ASSERT_TRUE(IsSameBits(logits, step.expected));
    num_compared += step.wanted.size();
    num_mixed_steps += step.rows.size() > 1;
  }
  EXPECT_GT(num_compared, 30u);
  EXPECT_GT(num_mixed_steps, 5u);
}

TEST_P(CpuModelTest, WithoutWantedLogitsOnlyTheKvIsWritten) {
  const auto model = Load(2);
  const std::vector<TokenId> tokens = RandomTokens(*model, 20, 4);
  const std::vector<float> expected = SequenceRunner(*model, tokens).RunInStepsOf(20);
  PoisonKv(*model);
  const std::vector<BlockId> blocks = {0, 1};
  const auto first_tables = BlockTablesAt(model->info(), 0, blocks);
  const ForwardRow first = {.num_tokens = 19, .block_tables = first_tables};
  model->Forward(
      {.token_ids = std::span(tokens).first(19), .rows = {&first, 1}, .logits_tokens = {}}, {});
  const auto last_tables = BlockTablesAt(model->info(), 19, blocks);
  const ForwardRow last = {.num_tokens = 1, .first_position = 19, .block_tables = last_tables};
  const uint32_t wanted = 0;
  std::vector<float> logits(model->info().vocab_size);
  model->Forward(
      {.token_ids = std::span(tokens).last(1), .rows = {&last, 1}, .logits_tokens = {&wanted, 1}},
      logits);
  EXPECT_TRUE(IsSameBits(logits, std::span(expected).last(logits.size())));
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, CpuModelTest,
                         ::testing::Values("tiny-llama", "tiny-qwen2", "tiny-qwen3",
                                           "tiny-qwen3-window", "tiny-gpt2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lockstep::worker
