// A request gives the same bits on one, two and four GPUs, under any schedule, and also if it moves
// from one degree of tensor parallelism to another in the middle; see tensor_parallel_test.cc.
// Twice for every model, as in schedule_invariance_cuda_test.cc. Every rank needs a GPU of its own:
// on a shared one such models hang after some exchanges (docs/decisions/0012-tensor-parallel.md).
// The planted build (LOCKSTEP_EXPECT_DIFFERENCES) links a
// GEMM that splits K, and must see differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/common/temp_folder.h"
#include "tests/integration/invariance/invariance_check.h"
#include "tests/integration/published_shapes.h"
#include "tests/support/cuda_test.h"
#include "tests/support/rank_devices.h"
#include "tests/worker/model/divisible_shape.h"
#include "worker/cuda/forward_model.h"
#include "worker/cuda/model.h"
#include "worker/cuda/steps/step_runner.h"
#include "worker/model/weights/random_codes.h"

namespace lockstep::testing {
namespace {

class TensorParallelCuda : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped() && NumDevices() < 2) GTEST_SKIP() << "fewer GPUs than ranks: skipped";
  }

  // `base`: what the models have in common, beside what the case says.
  void Check(ModelCase test, const worker::ModelOptions& base = {}) {
    std::vector<std::unique_ptr<worker::CudaModel>> models;
    struct Form {
      uint32_t degree;
      bool fuse_exchange = true;
    };
    for (const auto [degree, fuse_exchange] : {Form{1}, Form{2}, Form{2, false}, Form{4}}) {
      if (static_cast<int>(degree) > NumDevices()) continue;
      worker::ModelOptions options = base;
      options.kv_type = test.kv_type;
      options.num_kv_blocks = test.num_blocks;
      options.max_step_tokens = 1024;
      options.max_logits_rows = 256;
      options.random_weights = true;
      options.tensor_parallel = degree;
      options.fuse_exchange = fuse_exchange;
      options.rank_devices = RankDevices(static_cast<int>(degree));
      options.check_reduction_contract = !kExpectDifferences;
      // The fault is planted in the ops: single rows must not go past it.
      if (kExpectDifferences) options.max_fused_rows = 0;
      auto model = worker::LoadCudaModel(test.path, options);
      ASSERT_TRUE(model.ok()) << "degree " << degree << ": " << model.status();
      EXPECT_EQ((*model)->info().tensor_parallel, degree);
      models.push_back(*std::move(model));
      if (!kExpectDifferences) {
        EXPECT_EQ(models.back()->info().numerics_id, models.front()->info().numerics_id);
      }
    }
    // Every form has its turn.
    test.num_restarts = std::max(test.num_restarts, static_cast<uint32_t>(models.size()) - 1);
    CheckLogits(models, test);
    if (HasFatalFailure()) return;
    CheckServing(models, test);
  }

 private:
  using Models = std::vector<std::unique_ptr<worker::CudaModel>>;

  static void CheckLogits(const Models& models, const ModelCase& test) {
    SCOPED_TRACE("logits on the host");
    std::vector<std::unique_ptr<worker::CudaForwardModel>> forward_models;
    std::vector<WorkerUnderTest> workers;
    for (const std::unique_ptr<worker::CudaModel>& model : models) {
      auto forward_model = worker::CudaForwardModel::Create(*model);
      ASSERT_TRUE(forward_model.ok()) << forward_model.status();
      forward_models.push_back(*std::move(forward_model));
      workers.push_back(OnExecutor(*forward_models.back()));
    }
    CheckInvarianceInTurn(workers, test, kExpectDifferences);
  }

  static void CheckServing(const Models& models, const ModelCase& test) {
    SCOPED_TRACE("as a worker serves");
    std::vector<WorkerUnderTest> workers;
    for (const std::unique_ptr<worker::CudaModel>& model : models) {
      auto runner = worker::CudaStepRunner::Create(*model, {.max_slots = 256}, /*incarnation=*/1);
      ASSERT_TRUE(runner.ok()) << runner.status();
      const std::shared_ptr<worker::StepRunner> shared = *std::move(runner);
      workers.push_back({.info = model->info(),
                         .make_runner = [shared](const worker::ExecutorLimits&,
                                                 WorkerUnderTest::Observer) { return shared; }});
    }
    CheckInvarianceInTurn(workers, test, kExpectDifferences);
  }
};

ModelCase Tiny(const std::string& name, const TempFolder& folder) {
  worker::WriteShapeForGpus(name, folder.path());
  ModelCase tiny = TinyCase(name);
  tiny.path = folder.path();
  tiny.random_weights = true;
  tiny.num_restarts = 7;  // every form has its turn at least twice
  return tiny;
}

TEST_F(TensorParallelCuda, TinyLlama) {
  const TempFolder folder;
  Check(Tiny("tiny-llama", folder));
}
TEST_F(TensorParallelCuda, TinyQwen3) {
  const TempFolder folder;
  Check(Tiny("tiny-qwen3", folder));
}
TEST_F(TensorParallelCuda, TinyGpt2) {
  const TempFolder folder;
  Check(Tiny("tiny-gpt2", folder));
}
TEST_F(TensorParallelCuda, ShapeOfQwen3Of600MillionWeights) {
  Check(Qwen3Shape("tensor-parallel-qwen3-0.6b", 1024, 3072, 16));
}
TEST_F(TensorParallelCuda, ShapeOfQwen3Of8BillionWeights) {
  Check(Qwen3Shape("tensor-parallel-qwen3-8b", 4096, 12288, 32));
}
TEST_F(TensorParallelCuda, KeysAndValuesInFp8) {
  ModelCase test = Qwen3Shape("tensor-parallel-fp8-kv", 1024, 3072, 16);
  test.kv_type = kernels::KvType::kFp8;
  Check(test);
}

// One kind of integers, one of floats, one of blocks.
class TensorParallelPackedCuda : public TensorParallelCuda,
                                 public ::testing::WithParamInterface<const char*> {};

TEST_P(TensorParallelPackedCuda, ShapeOfQwen3Of600MillionWeights) {
  worker::ModelOptions options;
  options.random_codes = worker::FindRandomCodes(GetParam());
  ASSERT_TRUE(options.random_codes.has_value());
  options.weight_form = worker::WeightForm::kPacked;
  Check(Qwen3Shape("tensor-parallel-packed", 1024, 3072, 16), options);
}

INSTANTIATE_TEST_SUITE_P(Codes, TensorParallelPackedCuda,
                         ::testing::Values("int4-g128", "fp8-g128", "q4_k"), [](const auto& info) {
                           std::string name(info.param);
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(TensorParallelCuda, ShapeOfQwen3Of600MillionWeightsInFp8) {
  worker::ModelOptions options;
  options.random_codes = worker::FindRandomCodes("fp8-g128");
  options.activation_form = worker::ActivationForm::kFp8;
  Check(Qwen3Shape("tensor-parallel-fp8", 1024, 3072, 16), options);
}

}  // namespace
}  // namespace lockstep::testing
