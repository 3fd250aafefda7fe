// The schedule-invariance test on a GPU; see schedule_invariance_test.cc. Twice for every model:
// with the logits brought to the host, which compares their bits row by row, and as a worker
// serves, with the device's sampler, decode graphs and steps that really overlap, which compares
// tokens and log-probabilities.
#include <gtest/gtest.h>

#include <memory>

#include "tests/integration/invariance/invariance_check.h"
#include "tests/integration/published_shapes.h"
#include "tests/support/cuda_test.h"
#include "worker/cuda/forward_model.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_runner.h"

namespace lockstep::testing {
namespace {

class ScheduleInvarianceCuda : public CudaTest {
 protected:
  void Check(const ModelCase& test, worker::ModelOptions options = {}) {
    options.num_kv_blocks = test.num_blocks;
    options.max_step_tokens = 1024;
    options.max_logits_rows = 256;
    options.random_weights = test.random_weights;
    options.kv_type = test.kv_type;
    options.check_reduction_contract = !kExpectDifferences;
    // The fault is planted in the ops: single rows must not go past it.
    if (kExpectDifferences) options.max_fused_rows = 0;
    auto model = worker::LoadCudaModel(test.path, options);
    ASSERT_TRUE(model.ok()) << model.status();
    {
      SCOPED_TRACE("logits on the host");
      auto forward_model = worker::CudaForwardModel::Create(**model);
      ASSERT_TRUE(forward_model.ok()) << forward_model.status();
      CheckInvarianceOf(OnExecutor(**forward_model), test, kExpectDifferences);
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
    CheckInvarianceOf(worker, test, kExpectDifferences);
  }
};

TEST_F(ScheduleInvarianceCuda, TinyLlama) { Check(TinyCase("tiny-llama")); }
TEST_F(ScheduleInvarianceCuda, TinyQwen2) { Check(TinyCase("tiny-qwen2")); }
TEST_F(ScheduleInvarianceCuda, TinyGpt2) { Check(TinyCase("tiny-gpt2")); }
TEST_F(ScheduleInvarianceCuda, TinyQwen3) { Check(TinyCase("tiny-qwen3")); }
TEST_F(ScheduleInvarianceCuda, ShapeOfQwen3Of600MillionWeights) {
  Check(Qwen3Shape("qwen3-0.6b", 1024, 3072, 16));
}
TEST_F(ScheduleInvarianceCuda, ShapeOfQwen3Of8BillionWeights) {
  Check(Qwen3Shape("qwen3-8b", 4096, 12288, 32));
}
// Keys and values as codes. Decode and prefill read them in different ways.
TEST_F(ScheduleInvarianceCuda, KeysAndValuesInFp8) {
  ModelCase of_600_million = Qwen3Shape("qwen3-0.6b", 1024, 3072, 16);
  of_600_million.kv_type = kernels::KvType::kFp8;
  Check(of_600_million);
}
// Weights and activations in FP8.
TEST_F(ScheduleInvarianceCuda, ShapeOfQwen3Of600MillionWeightsInFp8) {
  worker::ModelOptions options;
  options.random_codes = worker::FindRandomCodes("fp8-g128");
  options.activation_form = worker::ActivationForm::kFp8;
  Check(Qwen3Shape("qwen3-0.6b", 1024, 3072, 16), options);
}
// No published Qwen3 has such heads. The prefill kernel for them keeps partial results elsewhere.
TEST_F(ScheduleInvarianceCuda, HeadsOf256) {
  Check(Qwen3Shape("heads-of-256", 1024, 3072, 16, /*head_dim=*/256));
}

}  // namespace
}  // namespace lockstep::testing
