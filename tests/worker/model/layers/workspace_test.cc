#include "worker/model/layers/workspace.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "tests/common/status_matchers.h"
#include "tests/worker/model/small_config.h"

namespace lockstep::worker {
namespace {

constexpr int64_t kTokens = 24;

TEST(WorkspaceTest, EveryKvGroupHasInputsOfItsOwn) {
  ModelConfig config = SmallConfig();
  config.layer_kinds = {{.window_tokens = 16, .rope = {}}, {.window_tokens = 0, .rope = {}}};
  config.kind_of_layer = {0, 1};
  const auto workspace = Workspace::Create(PlanOf(config), {}, kTokens, kTokens);
  ASSERT_THAT(workspace, IsOk());
  ASSERT_EQ(workspace->kv_inputs.size(), 2u);
  // Every place of one can be written without a change of another one's.
  uint64_t value = 1;
  for (const KvInputs& inputs : workspace->kv_inputs) {
    for (int64_t i = 0; i < kTokens; ++i) {
      inputs.kv_slots[i] = value++;
      inputs.sequences[i].first_token = static_cast<int64_t>(value++);
    }
  }
  uint64_t expected = 1;
  for (const KvInputs& inputs : workspace->kv_inputs) {
    for (int64_t i = 0; i < kTokens; ++i) {
      EXPECT_EQ(inputs.kv_slots[i], expected++);
      EXPECT_EQ(inputs.sequences[i].first_token, static_cast<int64_t>(expected++));
    }
  }
}

TEST(WorkspaceTest, HasRoomForTheLargestKind) {
  ModelPlan plan = PlanOf(SmallConfig());
  const auto small = Workspace::Create(plan, {}, kTokens, kTokens);
  plan.kinds.push_back(plan.kinds.front());
  const auto two_alike = Workspace::Create(plan, {}, kTokens, kTokens);
  plan.kinds.back().mlp.intermediate_size = 4096;
  const auto large = Workspace::Create(plan, {}, kTokens, kTokens);
  ASSERT_THAT(small, IsOk());
  ASSERT_THAT(two_alike, IsOk());
  ASSERT_THAT(large, IsOk());
  EXPECT_EQ(two_alike->storage.used_bytes(), small->storage.used_bytes());
  // Gate and up, and their product, in bf16.
  EXPECT_EQ(large->storage.used_bytes() - small->storage.used_bytes(),
            size_t{kTokens} * 3 * (4096 - 48) * 2);
}

}  // namespace
}  // namespace lockstep::worker
