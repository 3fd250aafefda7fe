// What the property test relies on: the model worker and the observer find plans with groups of KV
// that a faulty scheduler would make. Two groups: all tokens, and a window of 5, in blocks of 2.
// The pool of the window is smaller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"
#include "tests/router/core/model/model_worker.h"
#include "tests/router/core/model/reference_model.h"
#include "tests/router/core/properties/plan_observer.h"

namespace lockstep::router::testing {
namespace {

using ::testing::HasSubstr;

class PlantedFaultsTest : public ::testing::Test {
 protected:
  PlantedFaultsTest() {
    limits_.kv_groups = {{.block_size_tokens = 2, .num_blocks = 16},
                         {.block_size_tokens = 2,
                          .num_blocks = 12,
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

// The first group's pool has block 13, the window's has not.
TEST_F(PlantedFaultsTest, ABlockOfTheOtherGroupsPool) {
  const StepPlan start = Plan({Started(0, 0, {.group = 1, .ids = {0, 1, 2, 3, 13}})},
                              {{.slot = 0, .num_tokens = 10, .new_blocks = {}}});
  ExpectFound(observer_->OnPlan(start), "group 1: block 13 is given out, and its pool does not");
  ExpectFound(Execute(start), "group 1: has a block that does not exist");
  worker_ = std::make_unique<ModelWorker>(limits_);
  observer_ = std::make_unique<PlanObserver>(limits_);
  next_step_id_ = 1;
  RunFirst();
  const StepPlan growth = Plan(
      {}, {{.slot = 0, .num_tokens = 1, .new_blocks = {{.group = 1, .first = 5, .ids = {13}}}}});
  ExpectFound(observer_->OnPlan(growth), "group 1: block 13 is given out, and its pool does not");
  ExpectFound(Execute(growth), "block 13 does not exist");
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

// The same with drafts: a worker of one group, whose slot 0 knows its first new token.
class PlantedDraftFaultsTest : public PlantedFaultsTest {
 protected:
  PlantedDraftFaultsTest() {
    limits_.kv_groups.resize(1);
    limits_.max_draft_tokens = 3;
    worker_ = std::make_unique<ModelWorker>(limits_);
    observer_ = std::make_unique<PlanObserver>(limits_);
  }
  static StartedSlot StartedAlone(SlotId slot, uint32_t num_computed, std::vector<BlockId> blocks) {
    StartedSlot started = Started(slot, num_computed, {});
    started.blocks = {{.group = 0, .ids = std::move(blocks)}};
    return started;
  }
  void RunPrompt(std::vector<BlockId> blocks) {
    const StepPlan plan = Plan({StartedAlone(0, 0, std::move(blocks))},
                               {{.slot = 0, .num_tokens = 10, .new_blocks = {}}});
    ASSERT_TRUE(observer_->OnPlan(plan).ok());
    ASSERT_TRUE(Execute(plan).ok());
    observer_->OnAcknowledged(executed_);
  }
  StepPlan DraftPlan(uint32_t max_drafts) {
    return Plan({}, {{.slot = 0, .num_tokens = 1, .max_drafts = max_drafts, .new_blocks = {}}});
  }
};

TEST_F(PlantedDraftFaultsTest, DraftsWithoutBlocks) {
  RunPrompt({0, 1, 2, 3, 4, 5});
  EXPECT_TRUE(Execute(DraftPlan(1)).ok());
  worker_ = std::make_unique<ModelWorker>(limits_);
  observer_ = std::make_unique<PlanObserver>(limits_);
  next_step_id_ = 1;
  RunPrompt({0, 1, 2, 3, 4, 5});
  ExpectFound(Execute(DraftPlan(3)), "too few blocks");
}

TEST_F(PlantedDraftFaultsTest, DraftsThatNobodyAnnounced) {
  RunPrompt({0, 1, 2, 3, 4, 5, 6, 7});
  ExpectFound(Execute(DraftPlan(4)), "drafts more than was announced");
}

TEST_F(PlantedDraftFaultsTest, DraftsOfAPrompt) {
  ExpectFound(Execute(Plan({StartedAlone(0, 0, {0, 1, 2, 3, 4, 5, 6})},
                           {{.slot = 0, .num_tokens = 9, .max_drafts = 1, .new_blocks = {}}})),
              "does not decode one token");
}

// The worker kept one token of the row, and the KV of the drafts behind it is of no text.
TEST_F(PlantedDraftFaultsTest, AHitAsLongAsTheRowCouldHaveKept) {
  RunPrompt({0, 1, 2, 3, 4, 5, 6});
  const StepPlan draft = DraftPlan(3);
  ASSERT_TRUE(observer_->OnPlan(draft).ok());
  executed_ = {};
  ASSERT_TRUE(worker_->Execute(draft, {.num_right_drafts = 0}, executed_).ok());
  observer_->OnAcknowledged(executed_);
  const StartedSlot first = StartedAlone(0, 0, {});
  StartedSlot hit = StartedAlone(1, 12, {0, 1, 2, 3, 4, 5, 9, 10});
  for (const TokenId token : RunAlone(*first.request, 0).tokens) hit.known_tokens.push_back(token);
  auto longer = std::make_shared<Request>(*hit.request);
  longer->prompt_tokens = hit.known_tokens;
  hit.request = longer;
  const StepPlan plan = Plan({std::move(hit)}, {{.slot = 1, .num_tokens = 2, .new_blocks = {}}});
  ExpectFound(observer_->OnPlan(plan), "the hit at position 11 is not acknowledged KV");
  ExpectFound(Execute(plan), "the KV read at position 11 of 14 is not of its text");
}

TEST_F(PlantedDraftFaultsTest, ARowMoreThanMayRunAhead) {
  StartedSlot started = StartedAlone(0, 0, {0, 1, 2, 3, 4, 5});
  auto request = std::make_shared<Request>(*started.request);
  request->max_rows_in_flight = 1;
  started.request = request;
  const StepPlan first =
      Plan({std::move(started)}, {{.slot = 0, .num_tokens = 10, .new_blocks = {}}});
  ASSERT_TRUE(observer_->OnPlan(first).ok());
  ExpectFound(observer_->OnPlan(DraftPlan(0)), "slot 0: 1 rows are in flight");
}

}  // namespace
}  // namespace lockstep::router::testing
