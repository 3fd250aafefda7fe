#include "tests/integration/invariance/invariance_check.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/cpu/load_model.h"

namespace lockstep::testing {
namespace {

std::unique_ptr<worker::ForwardModel> Load(const ModelCase& model_case, uint32_t degree,
                                           bool check_contract) {
  worker::ModelOptions options;
  options.num_kv_blocks = model_case.num_blocks;
  options.kv_type = model_case.kv_type;
  options.num_threads = model_case.num_threads;
  options.max_step_tokens = 512;
  options.random_weights = model_case.random_weights;
  options.tensor_parallel = degree;
  options.instruction_set = model_case.instruction_set;
  options.check_reduction_contract = check_contract;
  absl::StatusOr<std::unique_ptr<worker::ForwardModel>> model =
      worker::LoadCpuModel(model_case.path, options);
  if (!model.ok()) {
    ADD_FAILURE() << model_case.path << ": " << model.status()
                  << " (deploy/fetch-model gets SmolLM2)";
    return nullptr;
  }
  return *std::move(model);
}

// Each life on the next of `workers`, which outlive the result.
WorkerUnderTest InTurn(const std::vector<WorkerUnderTest>& workers) {
  const auto next = std::make_shared<size_t>(0);
  return {.info = workers.front().info,
          .make_runner = [&workers, next](const worker::ExecutorLimits& limits,
                                          WorkerUnderTest::Observer observer) {
            return workers[(*next)++ % workers.size()].make_runner(limits, std::move(observer));
          }};
}

void CheckWorkers(const WorkerUnderTest& for_each_alone, const WorkerUnderTest& for_all_together,
                  const ModelCase& model_case, bool expect_differences) {
  WorkloadShape shape = model_case.shape;
  shape.vocab_size = for_each_alone.info.vocab_size;
  const auto requests = MakeWorkload(shape, /*seed=*/20261121);
  const auto lives = AdversarialLives(for_all_together.info, model_case.num_restarts,
                                      model_case.min_blocks, /*seed=*/7);

  const Records alone = RunAlone(for_each_alone, requests);
  ScheduleCounts counts;
  const Records together = RunTogether(for_all_together, requests, lives, /*seed=*/11, &counts);
  if (::testing::Test::HasFatalFailure()) return;

  fmt::print(
      "{}: steps {} overlapped {} mixed {} largest batch {} preemptions {} hit tokens {} "
      "partial prefills {} restarts {}\n",
      model_case.name, counts.steps, counts.overlapped_steps, counts.mixed_steps,
      counts.largest_batch, counts.preemptions, counts.prefix_hit_tokens, counts.partial_prefills,
      counts.restarts);
  EXPECT_GE(counts.restarts, model_case.num_restarts);
  EXPECT_GE(counts.partial_prefills, 40u);
  EXPECT_GE(counts.mixed_steps, 50u);
  EXPECT_GE(counts.prefix_hit_tokens, 1000u);
  if (model_case.expect_pressure) {
    EXPECT_GE(counts.preemptions, 20u);
    EXPECT_GE(counts.overlapped_steps, 50u);
    EXPECT_GE(counts.largest_batch, 6u);
  }

  const std::vector<std::string> differences = Differences(alone, together, /*limit=*/10);
  if (expect_differences) {
    EXPECT_FALSE(differences.empty() && counts.changed_on_recompute == 0)
        << "a GEMM that splits K went unnoticed";
  } else {
    EXPECT_THAT(differences, ::testing::IsEmpty());
    EXPECT_EQ(counts.changed_on_recompute, 0u);
  }
}

}  // namespace

ModelCase TinyCase(const std::string& name) {
  ModelCase tiny;
  tiny.name = name;
  tiny.path = "tests/golden/" + name;
  tiny.num_blocks = 512;
  tiny.shape.max_prompt_tokens = 50;
  tiny.shape.max_new_tokens = 90;
  tiny.shape.stop_token_ids = {4};
  tiny.num_restarts = 4;
  tiny.min_blocks = 16;
  return tiny;
}

void CheckInvariance(const ModelCase& model_case, bool expect_differences) {
  std::vector<std::unique_ptr<worker::ForwardModel>> models;
  std::vector<WorkerUnderTest> workers;
  for (const uint32_t degree : model_case.degrees) {
    models.push_back(Load(model_case, degree, /*check_contract=*/!expect_differences));
    ASSERT_NE(models.back(), nullptr);
    workers.push_back(OnExecutor(*models.back()));
  }
  CheckInvarianceInTurn(workers, model_case, expect_differences);
}

void CheckInvarianceInTurn(const std::vector<WorkerUnderTest>& workers, const ModelCase& model_case,
                           bool expect_differences) {
  CheckWorkers(workers.front(), InTurn(workers), model_case, expect_differences);
}

void CheckInvarianceOf(const WorkerUnderTest& worker, const ModelCase& model_case,
                       bool expect_differences) {
  CheckWorkers(worker, worker, model_case, expect_differences);
}

}  // namespace lockstep::testing
