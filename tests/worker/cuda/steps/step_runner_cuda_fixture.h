#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/support/cuda_test.h"
#include "tests/support/rank_devices.h"
#include "worker/cpu/step_runner.h"
#include "worker/cuda/forward_model.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_memory.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::worker {

// Two models with the same random weights: one, on one or two ranks, under a CudaStepRunner, the
// other under a CudaForwardModel.
class StepRunnerCudaTest : public testing::CudaTest,
                           public ::testing::WithParamInterface<uint32_t> {
 protected:
  static constexpr ExecutorLimits kLimits = {.max_slots = 8};

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                   {"model_type", "llama"},
                                   {"dtype", "bfloat16"},
                                   {"vocab_size", 64},
                                   {"hidden_size", 64},
                                   {"intermediate_size", 128},
                                   {"num_hidden_layers", 2},
                                   {"num_attention_heads", 4},
                                   {"num_key_value_heads", 2},
                                   {"head_dim", 16},
                                   {"max_position_embeddings", max_positions()},
                                   {"rms_norm_eps", 1e-6},
                                   {"rope_theta", 10000.0},
                                   {"tie_word_embeddings", true},
                                   {"hidden_act", "silu"},
                                   {"eos_token_id", 1}};
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) /
                                         fmt::format("step-runner-cuda-test-{}", max_positions());
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config;
    for (std::unique_ptr<CudaModel>* model : {&runner_model_, &executor_model_}) {
      const uint32_t degree = model == &runner_model_ ? GetParam() : 1;
      auto loaded = LoadCudaModel(folder, {.rank_devices = testing::RankDevices(degree),
                                           .num_kv_blocks = 64,
                                           .max_slots = 8,
                                           .max_step_tokens = 64,
                                           .max_logits_rows = 16,
                                           .tensor_parallel = degree,
                                           .random_weights = true});
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      *model = *std::move(loaded);
      // The router may say that a place is computed that nobody has written: any numbers will do,
      // but they must be finite and the same in both pools.
      FillPool(**model, 0);
    }
    auto runner = CudaStepRunner::Create(*runner_model_, kLimits, /*incarnation=*/1);
    ASSERT_TRUE(runner.ok()) << runner.status();
    runner_ = *std::move(runner);
    auto forward_model = CudaForwardModel::Create(*executor_model_);
    ASSERT_TRUE(forward_model.ok()) << forward_model.status();
    forward_model_ = *std::move(forward_model);
  }
  void TearDown() override {
    runner_.reset();
    forward_model_.reset();
    runner_model_.reset();
    executor_model_.reset();
    CudaTest::TearDown();
  }

  virtual int max_positions() const { return 256; }

  // Writes `byte` to all keys and values of all ranks.
  static void FillPool(CudaModel& model, int byte) {
    model.OnRanks([&model, byte](int rank) {
      const std::span<std::byte> kv = model.rank(rank).kv_bytes();
      EXPECT_EQ(cudaMemset(kv.data(), byte, kv.size()), cudaSuccess);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    });
  }

  v1::StepResult RunOnDevice(const v1::StepRequest& step) {
    runner_->Submit(step);
    return TakeResult();
  }
  v1::StepResult TakeResult() {
    v1::StepResult result;
    StepStats stats;
    while (!runner_->TakeResult(&result, &stats)) {
    }
    return result;
  }

  std::unique_ptr<CudaModel> runner_model_;
  std::unique_ptr<CudaModel> executor_model_;
  std::unique_ptr<CudaForwardModel> forward_model_;
  std::unique_ptr<CudaStepRunner> runner_;
};

INSTANTIATE_TEST_SUITE_P(Ranks, StepRunnerCudaTest, ::testing::Values(1, 2));

}  // namespace lockstep::worker
