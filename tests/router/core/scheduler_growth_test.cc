// Sequences that need another block grow together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

using ::testing::ElementsAre;

class SchedulerGrowthTest : public SchedulerTest {
 protected:
  SchedulerGrowthTest() {
    limits.kv_groups[0].block_size_tokens = 16;
    limits.max_step_tokens = 128;
  }

  // Four sequences with two blocks each. The first needs a third block in its third decode. The
  // second needs one within the 8 decodes that begin there, and the third one decode later. The
  // fourth would need one, but ends before.
  void StartAll() {
    Start();
    Submit(1, TextOf(1, 30), 20);
    Submit(2, TextOf(2, 23), 20);
    Submit(3, TextOf(3, 22), 20);
    Submit(4, TextOf(4, 25), 6);
  }
  // The slots that grow in the next step in which one does.
  std::vector<SlotId> NextThatGrow() {
    std::vector<SlotId> slots;
    while (slots.empty() && Plan() != nullptr) {
      for (const RunRow& row : planned.back().rows) {
        if (!row.new_blocks.empty()) slots.push_back(row.slot);
      }
      Done();
    }
    return slots;
  }
};

TEST_F(SchedulerGrowthTest, ThoseThatMustGrowSoonGrowTogether) {
  limits.kv_groups[0].num_blocks = 8 + 2 * 8;
  StartAll();
  EXPECT_THAT(NextThatGrow(), ElementsAre(0, 1));
  EXPECT_EQ(Stats().used_blocks, 10u);
  RunUntilIdle();
}

TEST_F(SchedulerGrowthTest, NobodyGrowsEarlyWhenBlocksAreShort) {
  limits.kv_groups[0].num_blocks = 8 + 2 * 8 - 1;
  StartAll();
  EXPECT_THAT(NextThatGrow(), ElementsAre(0));
  EXPECT_EQ(Stats().used_blocks, 9u);
  RunUntilIdle();
}

}  // namespace
}  // namespace lockstep::router::testing
