// What the property test relies on: the model worker and the observer find plans with groups of KV
// that a faulty scheduler would make. Two groups: all tokens, and a window of 5, in blocks of 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/core/model_worker.h"
#include "tests/router/core/properties/plan_observer.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

class PlantedFaultsTest : public ::testing::Test {
 protected:
  PlantedFaultsTest() {
    limits_.kv_groups = {{.block_size_tokens = 2, .num_blocks = 16},
                         {.block_size_tokens = 2,
                          .num_blocks = 16,
                          .retention = Retention::kWindow,
                          .window_tokens = 5}};
    limits_.max_slots = 4;
    limits_.max_step_tokens = 32;
    limits_.max_context_tokens = 64;
    worker_ = std::make_unique<ModelWorker>(limits_);
    observer_ = std::make_unique<PlanObserver>(limits_);
  }

  // Ten tokens, whose blocks are 0 to 5 in the first group.
  static StartedSlot Started(SlotId slot, uint32_t num_computed, GroupBlocks window) {
    auto request = std::make_shared<Request>();
    request->key = slot + 1;
    request->prompt_tokens = {1, 2, 3, 1, 2, 3, 1, 2, 3, 1};
    request->sampling.max_new_tokens = 4;
    return {.slot = slot,
            .request = request,
            .known_tokens = request->prompt_tokens,
            .num_computed_tokens = num_computed,
            .blocks = {{.group = 0, .ids = {0, 1, 2, 3, 4, 5}}, std::move(window)}};
  }
  StepPlan Plan(std::vector<StartedSlot> started, std::vector<RunRow> rows) {
    StepPlan plan;
    plan.step_id = next_step_id_++;
    plan.started = std::move(started);
    plan.rows = std::move(rows);
    return plan;
  }
  absl::Status Execute(const StepPlan& plan) {
    executed_ = {};
    return worker_->Execute(plan, {}, executed_);
  }
  // Runs all ten tokens of slot 0.
  void RunFirst() {
    const StepPlan plan = Plan({Started(0, 0, {.group = 1, .ids = {0, 1, 2, 3, 4}})},
                               {{.slot = 0, .num_tokens = 10, .new_blocks = {}}});
    ASSERT_TRUE(observer_->OnPlan(plan).ok());
    ASSERT_TRUE(Execute(plan).ok());
  }
  static void ExpectFound(const absl::Status& status, const char* what) {
    EXPECT_THAT(Message(status), HasSubstr(what));
  }

  WorkerLimits limits_;
  std::unique_ptr<ModelWorker> worker_;
  std::unique_ptr<PlanObserver> observer_;
  ModelWorker::Executed executed_;
  StepId next_step_id_ = 1;
};

TEST_F(PlantedFaultsTest, AHitThatLacksABlockOfTheWindow) {
  RunFirst();
  ExpectFound(Execute(Plan({Started(1, 8, {.group = 1, .first = 3, .ids = {3, 9}})},
                           {{.slot = 1, .num_tokens = 2, .new_blocks = {}}})),
              "lacks a block that its next token reads");
}

TEST_F(PlantedFaultsTest, AHitWithABlockOfOtherTokens) {
  RunFirst();
  StartedSlot started = Started(1, 8, {.group = 1, .first = 2, .ids = {1, 3, 9}});
  started.blocks[0].ids = {0, 1, 2, 3, 10};
  const StepPlan plan =
      Plan({std::move(started)}, {{.slot = 1, .num_tokens = 2, .new_blocks = {}}});
  observer_->OnAcknowledged(executed_);
  ExpectFound(observer_->OnPlan(plan), "group 1: the hit at position 4 is not acknowledged");
  ExpectFound(Execute(plan), "group 1: the KV read at position 4 of 10 is not of its text");
}

TEST_F(PlantedFaultsTest, AGroupThatIsMissing) {
  StartedSlot started = Started(0, 0, {.group = 1, .ids = {0, 1, 2, 3, 4}});
  started.blocks.pop_back();
  ExpectFound(
      Execute(Plan({std::move(started)}, {{.slot = 0, .num_tokens = 10, .new_blocks = {}}})),
      "not one table for each group");
}

TEST_F(PlantedFaultsTest, AChunkThatTheWindowGroupDoesNotCover) {
  ExpectFound(Execute(Plan({Started(0, 0, {.group = 1, .ids = {0, 1}})},
                           {{.slot = 0, .num_tokens = 10, .new_blocks = {}}})),
              "too few blocks");
}

// The window of the next token, 10, begins at token 6, in block 3.
TEST_F(PlantedFaultsTest, ABlockOfTheWindowThatAnotherSequenceWrites) {
  RunFirst();
  const auto other = [this](BlockId block) {
    StartedSlot started = Started(1, 0, {.group = 1, .ids = {block}});
    started.blocks[0].ids = {10};
    return Plan({std::move(started)}, {{.slot = 1, .num_tokens = 2, .new_blocks = {}}});
  };
  EXPECT_TRUE(Execute(other(2)).ok()) << "it lies behind the window";
  worker_ = std::make_unique<ModelWorker>(limits_);
  next_step_id_ = 1;
  observer_ = std::make_unique<PlanObserver>(limits_);
  RunFirst();
  ExpectFound(Execute(other(3)), "writes block 3, which request 1 reads");
}

TEST_F(PlantedFaultsTest, ABlockThatComesBackBeforeItsStepIsAcknowledged) {
  RunFirst();
  StartedSlot started = Started(1, 0, {.group = 1, .ids = {0}});
  started.blocks[0].ids = {10};
  const StepPlan early =
      Plan({std::move(started)}, {{.slot = 1, .num_tokens = 2, .new_blocks = {}}});
  ExpectFound(observer_->OnPlan(early), "block 0 is given out while a step in flight mentions it");
  observer_->OnAcknowledged(executed_);
  EXPECT_TRUE(observer_->OnPlan(early).ok());
}

}  // namespace
}  // namespace lockstep::router::testing
