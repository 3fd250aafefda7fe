#include "tests/integration/serving_harness.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace lockstep::testing {
namespace {

worker::ForwardModelInfo SmallModel() {
  worker::ForwardModelInfo info;
  info.vocab_size = 16;
  info.max_context_tokens = 64;
  info.max_step_tokens = 8;
  info.max_logits_rows = 2;
  info.kv_groups.front().num_blocks = 8;
  return info;
}

// Refuses every step.
class RefusingRunner final : public worker::StepRunner {
 public:
  const worker::StepBounds& bounds() const override { return bounds_; }
  void BeginLease(uint64_t /*epoch*/) override {}
  void EndLease() override {}
  void Submit(const lockstep::worker::v1::StepRequest& /*step*/) override { ++num_pending_; }
  size_t num_pending() const override { return num_pending_; }
  bool TakeResult(lockstep::worker::v1::StepResult* result, worker::StepStats* /*stats*/) override {
    result->Clear();
    result->mutable_refusal()->set_message("not today");
    --num_pending_;
    return true;
  }

 private:
  const worker::StepBounds bounds_{SmallModel(), worker::ExecutorLimits()};
  size_t num_pending_ = 0;
};

void RunOnAWorkerThatRefuses() {
  const WorkerUnderTest worker = {.info = SmallModel(), .make_runner = [](const auto&, auto) {
                                    return std::make_shared<RefusingRunner>();
                                  }};
  router::KvGroup group;
  group.num_blocks = 8;
  const WorkerLife life = {
      .limits = {
          .kv_groups = {group}, .max_slots = 2, .max_step_tokens = 8, .max_context_tokens = 64}};
  router::Request request;
  request.key = 1;
  request.prompt_tokens = {1, 2, 3};
  ServingHarness harness(worker, router::SchedulerConfig(), /*seed=*/1);
  harness.Submit(std::make_shared<const router::Request>(std::move(request)));
  harness.Run({life});
}

TEST(ServingHarnessTest, StopsAtTheFirstError) {
  EXPECT_FATAL_FAILURE(RunOnAWorkerThatRefuses(), "a step was refused: not today");
}

}  // namespace
}  // namespace lockstep::testing
