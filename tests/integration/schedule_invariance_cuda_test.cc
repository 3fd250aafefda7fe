// The schedule-invariance test on a GPU; see schedule_invariance_test.cc. Twice for every model:
// with the logits brought to the host, which compares their bits row by row, and as a worker
// serves, with the device's sampler, decode graphs and steps that really overlap, which compares
// tokens and log-probabilities.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/integration/invariance_check.h"
#include "tests/support/cuda_test.h"
#include "worker/cuda/forward_model.h"
#include "worker/cuda/model.h"
#include "worker/cuda/step_runner.h"

namespace lockstep::testing {
namespace {

struct CudaCase {
  ModelCase model;
  bool random_weights = false;
};

class ScheduleInvarianceCuda : public CudaTest {
 protected:
  void Check(const CudaCase& test) {
    worker::ModelOptions options;
    options.num_kv_blocks = test.model.num_blocks;
    options.max_step_tokens = 1024;
    options.max_logits_rows = 256;
    options.random_weights = test.random_weights;
    options.check_reduction_contract = !kExpectDifferences;
    // The fault is planted in the ops: single rows must not go past it.
    if (kExpectDifferences) options.max_fused_rows = 0;
    auto model = worker::LoadCudaModel(test.model.path, options);
    ASSERT_TRUE(model.ok()) << model.status();
    {
      SCOPED_TRACE("logits on the host");
      auto forward_model = worker::CudaForwardModel::Create(**model);
      ASSERT_TRUE(forward_model.ok()) << forward_model.status();
      CheckInvarianceOf(OnExecutor(**forward_model), test.model, kExpectDifferences);
    }
    if (HasFatalFailure()) return;
    SCOPED_TRACE("as a worker serves");
    auto runner = worker::CudaStepRunner::Create(**model, {.max_slots = 256}, /*incarnation=*/1);
    ASSERT_TRUE(runner.ok()) << runner.status();
    const std::shared_ptr<worker::StepRunner> shared = *std::move(runner);
    const WorkerUnderTest worker = {
        .info = (*model)->info(),
        .make_runner = [shared](const worker::ExecutorLimits&, WorkerUnderTest::Observer) {
          return shared;
        }};
    CheckInvarianceOf(worker, test.model, kExpectDifferences);
  }
};

// A published shape with few layers and random weights.
CudaCase Qwen3Shape(const std::string& name, int hidden_size, int intermediate_size,
                    int num_heads) {
  const nlohmann::json config = {{"architectures", {"Qwen3ForCausalLM"}},
                                 {"model_type", "qwen3"},
                                 {"dtype", "bfloat16"},
                                 {"vocab_size", 151936},
                                 {"hidden_size", hidden_size},
                                 {"intermediate_size", intermediate_size},
                                 {"num_hidden_layers", 3},
                                 {"num_attention_heads", num_heads},
                                 {"num_key_value_heads", 8},
                                 {"head_dim", 128},
                                 {"max_position_embeddings", 4096},
                                 {"rms_norm_eps", 1e-6},
                                 {"rope_theta", 1e6},
                                 {"tie_word_embeddings", hidden_size == 1024},
                                 {"attention_bias", false},
                                 {"hidden_act", "silu"},
                                 {"eos_token_id", 151645}};
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  CudaCase test;
  test.random_weights = true;
  test.model.name = name;
  test.model.path = folder;
  test.model.num_blocks = 2048;
  test.model.shape.num_requests = 120;
  test.model.shape.max_prompt_tokens = 60;
  test.model.shape.max_new_tokens = 40;
  // Past three attention borders (every 128 keys at first), with hits and chunks on both sides.
  test.model.shape.num_long_requests = 12;
  test.model.shape.long_prompt_tokens = 1100;
  test.model.num_restarts = 2;
  test.model.min_blocks = 80;
  test.model.expect_pressure = false;
  return test;
}

TEST_F(ScheduleInvarianceCuda, TinyLlama) { Check({TinyCase("tiny-llama")}); }
TEST_F(ScheduleInvarianceCuda, TinyQwen2) { Check({TinyCase("tiny-qwen2")}); }
TEST_F(ScheduleInvarianceCuda, TinyGpt2) { Check({TinyCase("tiny-gpt2")}); }
TEST_F(ScheduleInvarianceCuda, TinyQwen3) { Check({TinyCase("tiny-qwen3")}); }
TEST_F(ScheduleInvarianceCuda, ShapeOfQwen3Of600MillionWeights) {
  Check(Qwen3Shape("qwen3-0.6b", 1024, 3072, 16));
}
TEST_F(ScheduleInvarianceCuda, ShapeOfQwen3Of8BillionWeights) {
  Check(Qwen3Shape("qwen3-8b", 4096, 12288, 32));
}

}  // namespace
}  // namespace lockstep::testing
