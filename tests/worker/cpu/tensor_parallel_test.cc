// A model gives the same bits however many ranks compute it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/common/status_matchers.h"
#include "tests/common/temp_folder.h"
#include "tests/support/tensor_compare.h"
#include "tests/worker/model/checkpoint_builder.h"
#include "tests/worker/model/divisible_shape.h"
#include "tests/worker/model/sequence_runner.h"
#include "worker/cpu/load_model.h"
#include "worker/cpu/model.h"

namespace lockstep::worker {
namespace {

using ::testing::HasSubstr;

ModelOptions Options(uint32_t degree) {
  return {.num_kv_blocks = 16, .max_step_tokens = 128, .num_threads = 6, .tensor_parallel = degree};
}

std::vector<TokenId> RandomTokens(const ForwardModel& model, uint32_t count) {
  std::mt19937 generator(count);
  std::uniform_int_distribution<TokenId> uniform(0, model.info().vocab_size - 1);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = uniform(generator);
  return tokens;
}

void PoisonKv(ForwardModel& model) {
  auto& cpu = dynamic_cast<CpuModel&>(model);
  for (size_t rank = 0; rank < cpu.num_ranks(); ++rank) {
    std::ranges::fill(cpu.kv_pool(rank).bytes(), std::byte{0xFF});
  }
}

// `sharded` gives the logits of `whole`, in one step, in chunks and token by token.
void ExpectSameBits(ForwardModel& whole, ForwardModel& sharded, uint32_t degree) {
  EXPECT_EQ(whole.info().tensor_parallel, 1u);
  EXPECT_EQ(sharded.info().tensor_parallel, degree);
  EXPECT_EQ(sharded.info().numerics_id, whole.info().numerics_id);
  EXPECT_EQ(sharded.info().weights_fingerprint, whole.info().weights_fingerprint);
  EXPECT_EQ(sharded.info().memory.kv_cache_bytes, whole.info().memory.kv_cache_bytes);
  const std::vector<TokenId> tokens = RandomTokens(whole, 61);
  const std::vector<float> expected = SequenceRunner(whole, tokens).RunInStepsOf(61);
  ASSERT_TRUE(IsFinite(expected));
  for (const uint32_t step : {61u, 13u, 1u}) {
    PoisonKv(sharded);
    EXPECT_TRUE(IsSameBits(
        SequenceRunner(sharded, tokens, /*first_block=*/3, /*block_stride=*/2).RunInStepsOf(step),
        expected))
        << degree << " ranks, steps of " << step;
  }
}

class TensorParallelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TensorParallelTest, TwoRanksGiveTheBitsOfOne) {
  for (const kernels::KvType type : {kernels::KvType::kBFloat16, kernels::KvType::kFp8}) {
    const auto load = [type](uint32_t degree) {
      ModelOptions options = Options(degree);
      options.kv_type = type;
      return LoadCpuModel("tests/golden/" + GetParam(), options);
    };
    auto whole = load(1);
    auto sharded = load(2);
    ASSERT_THAT(whole, IsOk());
    ASSERT_THAT(sharded, IsOk());
    ExpectSameBits(**whole, **sharded, 2);
  }
}

TEST_P(TensorParallelTest, AnyNumberOfRanksGivesTheBitsOfOne) {
  const TempFolder folder;
  WriteDivisibleShape(GetParam(), folder.path());
  const auto load = [&folder](uint32_t degree) {
    ModelOptions options = Options(degree);
    options.random_weights = true;
    return LoadCpuModel(folder.path(), options);
  };
  auto whole = load(1);
  ASSERT_THAT(whole, IsOk());
  for (const uint32_t degree : {2u, 3u, 6u}) {
    auto sharded = load(degree);
    ASSERT_THAT(sharded, IsOk());
    ExpectSameBits(**whole, **sharded, degree);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, TensorParallelTest,
                         ::testing::Values("tiny-llama", "tiny-qwen2", "tiny-qwen3",
                                           "tiny-qwen3-window", "tiny-gpt2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// GGUF files have the rows of q and k in another order within each head.
TEST(TensorParallelFormatsTest, RanksReadGgufFilesToo) {
  for (const bool tied : {false, true}) {
    const TempFolder folder;
    const std::string path =
        folder.Write("model.gguf", GgufBytes(MakeCheckpoint(FindModelFamily("llama"), tied)));
    auto whole = LoadCpuModel(path, Options(1));
    auto sharded = LoadCpuModel(path, Options(2));
    ASSERT_THAT(whole, IsOk());
    ASSERT_THAT(sharded, IsOk());
    ExpectSameBits(**whole, **sharded, 2);
  }
}

TEST(TensorParallelFormatsTest, AShapeThatCannotBeSharedIsRefusedByName) {
  EXPECT_THAT(LoadCpuModel("tests/golden/tiny-llama", Options(3)),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("tests/golden/tiny-llama: 3 ranks cannot share the model evenly: "
                                 "heads (4), KV heads (2), hidden size (64), intermediate size "
                                 "(176) cannot be divided by 3")));
}

}  // namespace
}  // namespace lockstep::worker
