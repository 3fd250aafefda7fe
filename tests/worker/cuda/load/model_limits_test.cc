#include "worker/cuda/load/model_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/status_matchers.h"
#include "tests/worker/model/small_config.h"

namespace lockstep::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig Config() {
  ModelConfig config = SmallConfig();
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 64;
  config.hidden_size = 512;
  config.intermediate_size = 1024;
  config.vocab_size = 1024;
  return config;
}

TEST(ModelLimitsTest, SharesOfRanksAreWholePieces) {
  EXPECT_THAT(CheckCudaPlan(PlanOf(Config()), 4), IsOk());
  ModelConfig config = Config();
  config.hidden_size = 48;
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1), IsOk());
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 4),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("4 GPUs cannot share a hidden size of 48")));
  config = Config();
  config.vocab_size = 1002;
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1), IsOk());
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 2),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("a vocabulary of 1002")));
}

TEST(ModelLimitsTest, NamesTheSizeThatNoKernelTakes) {
  ModelConfig config = Config();
  config.hidden_size = 8192;
  config.vocab_size = 393216;
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1), IsOk());
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 4), IsOk());
  config.hidden_size = 16384;
  for (const int64_t degree : {1, 4}) {
    EXPECT_THAT(CheckCudaPlan(PlanOf(config), degree),
                HasError(absl::StatusCode::kUnimplemented,
                         HasSubstr("hidden size is 16384, the CUDA kernels take at most 8192")));
  }
  config = Config();
  config.vocab_size = 400000;
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("the vocabulary has 400000 tokens, the CUDA kernels take at most "
                                 "393216")));
}

TEST(ModelLimitsTest, LayersThatDifferAreRefusedByName) {
  ModelConfig config = Config();
  config.layer_kinds = {{.window_tokens = 32, .rope = {}}, {.window_tokens = 0, .rope = {}}};
  config.kind_of_layer = {0, 1};
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1),
              HasError(absl::StatusCode::kUnimplemented,
                       HasSubstr("layers with a window of 32 tokens: the CUDA kernels have none")));
  config.kind_of_layer = {0, 0};
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("a window of 32 tokens")));
  config.layer_kinds[0].window_tokens = 0;
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1), IsOk());
  config.layer_kinds[0].rope.theta = 1e6;
  config.kind_of_layer = {0, 1};
  EXPECT_THAT(CheckCudaPlan(PlanOf(config), 1),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("2 different rotations")));
  ModelPlan plan = PlanOf(Config());
  plan.kinds.push_back(plan.kinds.front());
  EXPECT_THAT(CheckCudaPlan(plan, 1),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("layers of 2 kinds")));
}

TEST(ModelLimitsTest, EveryRankHasADevice) {
  ModelOptions options;
  EXPECT_THAT(*RankDevicesOf(options), ElementsAre(0));
  options.rank_devices = {2};
  EXPECT_THAT(*RankDevicesOf(options), ElementsAre(2));
  options.tensor_parallel = 2;
  options.rank_devices = {};
  EXPECT_THAT(*RankDevicesOf(options), ElementsAre(0, 1));
  options.rank_devices = {2, 3};
  EXPECT_THAT(*RankDevicesOf(options), ElementsAre(2, 3));
  options.rank_devices = {5, 5};  // as tests do
  EXPECT_THAT(*RankDevicesOf(options), ElementsAre(5, 5));
  options.tensor_parallel = 4;
  EXPECT_THAT(RankDevicesOf(options).status(),
              HasError(absl::StatusCode::kInvalidArgument, HasSubstr("2 GPUs for 4 ranks")));
  options.tensor_parallel = 16;
  EXPECT_THAT(RankDevicesOf(options).status(),
              HasError(absl::StatusCode::kUnimplemented, HasSubstr("at most 8 GPUs")));
}

}  // namespace
}  // namespace lockstep::worker
