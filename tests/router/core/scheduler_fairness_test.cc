// Who starts next when tenants compete, and that nobody waits for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/core/policy/priority_policy.h"
#include "tests/router/core/properties/random_source.h"
#include "tests/router/core/scheduler_fixture.h"

namespace lockstep::router::testing {
namespace {

class SchedulerFairnessTest : public SchedulerTest {
 protected:
  // Every request comes a millisecond after the one before.
  void SubmitOf(std::string tenant, RequestKey key, uint32_t num_prompt_tokens = 4,
                int32_t priority = 0, double weight = 1) {
    now += absl::Milliseconds(1);
    auto request = MakeRequest(key, TextOf(static_cast<uint32_t>(key), num_prompt_tokens), 4);
    request->tenant = std::move(tenant);
    request->tenant_weight = weight;
    request->priority = priority;
    Submit(std::move(request));
  }

  // The keys of all that are submitted, as they start.
  std::vector<RequestKey> Starts() {
    std::vector<RequestKey> keys;
    while (!scheduler->Idle() && !HasFailure()) {
      while (const StepPlan* plan = Plan()) {
        for (const StartedSlot& started : plan->started) keys.push_back(started.request->key);
      }
      Done();
    }
    return keys;
  }
};

TEST_F(SchedulerFairnessTest, WhoWasServedLeastStartsFirst) {
  config.max_running_sequences = 1;
  Start();
  for (RequestKey key = 1; key <= 3; ++key) SubmitOf("large", key);
  ASSERT_NE(FindStarted(*Plan(), 1), nullptr);
  SubmitOf("small", 4);
  EXPECT_EQ(Starts(), (std::vector<RequestKey>{4, 2, 3}));
}

TEST_F(SchedulerFairnessTest, EqualDemandsTakeTurns) {
  config.max_running_sequences = 1;
  Start();
  for (RequestKey key = 1; key <= 3; ++key) SubmitOf("a", key);
  for (RequestKey key = 11; key <= 13; ++key) SubmitOf("b", key);
  EXPECT_EQ(Starts(), (std::vector<RequestKey>{1, 11, 2, 12, 3, 13}));
}

TEST_F(SchedulerFairnessTest, ALongPromptCountsForMore) {
  config.max_running_sequences = 1;
  Start();
  for (RequestKey key = 1; key <= 2; ++key) SubmitOf("long", key, 28);
  for (RequestKey key = 11; key <= 14; ++key) SubmitOf("short", key);
  // 28 + 2 * 4 against 4 + 2 * 4 each.
  EXPECT_EQ(Starts(), (std::vector<RequestKey>{1, 11, 12, 13, 2, 14}));
}

TEST_F(SchedulerFairnessTest, ServiceIsInProportionToTheWeights) {
  config.max_running_sequences = 1;
  Start();
  for (RequestKey key = 1; key <= 6; ++key) SubmitOf("heavy", key, 4, 0, 3);
  for (RequestKey key = 11; key <= 13; ++key) SubmitOf("light", key);
  // After one of each three more of the heavy one's are as much as one of the light one's.
  EXPECT_EQ(Starts(), (std::vector<RequestKey>{1, 11, 2, 3, 4, 12, 5, 6, 13}));
}

TEST_F(SchedulerFairnessTest, CachedTokensAreFree) {
  config.max_running_sequences = 1;
  Start();
  auto seed = MakeRequest(1, TextOf(7, 28), 1);
  seed->tenant = "cached";
  Submit(seed);
  RunUntilIdle();
  for (RequestKey key = 2; key <= 3; ++key) {
    auto request = MakeRequest(key, TextOf(7, 28), 4);
    request->tenant = "cached";
    Submit(request);
  }
  for (RequestKey key = 11; key <= 12; ++key) SubmitOf("new", key, 16);
  EXPECT_EQ(Starts(), (std::vector<RequestKey>{2, 11, 3, 12}));
}

TEST_F(SchedulerFairnessTest, EverySixteenthStartIsThePolicysChoice) {
  config.max_running_sequences = 1;
  Start();
  SubmitOf("old", 1);
  SubmitOf("old", 2);
  for (RequestKey key = 11; key < 31; ++key) SubmitOf("new " + std::to_string(key), key);
  const std::vector<RequestKey> keys = Starts();
  ASSERT_EQ(keys.size(), 22u);
  EXPECT_EQ(keys[0], 1u);
  EXPECT_EQ(keys[15], 2u) << "its tenant was served more than all others";
}

TEST_F(SchedulerFairnessTest, PriorityComesBeforeFairness) {
  config.max_running_sequences = 1;
  Start(MakePriorityPolicy(absl::Seconds(10)));
  for (RequestKey key = 1; key <= 3; ++key) SubmitOf("large", key);
  SubmitOf("small", 4, 4, 1);
  SubmitOf("small", 5, 4, 0);
  EXPECT_EQ(Starts(), (std::vector<RequestKey>{1, 5, 2, 3, 4}));
}

TEST_F(SchedulerFairnessTest, APromptInChunksLetsOthersPass) {
  Start();
  SubmitOf("large", 1, 90);
  ASSERT_NE(FindStarted(*Plan(), 1), nullptr);
  SubmitOf("small", 2);
  ASSERT_EQ(FindStarted(*Plan(), 2), nullptr) << "it begins with what the large one was served";
  Done();
  const StepPlan* plan = Plan();
  ASSERT_NE(FindStarted(*plan, 2), nullptr);
  ASSERT_EQ(plan->rows.size(), 2u);
  EXPECT_EQ(plan->rows[0].num_tokens, 4u);
  EXPECT_EQ(plan->rows[1].num_tokens, 26u) << "what is left of the step";
}

TEST_F(SchedulerFairnessTest, TheLastSlotsAreForTenantsThatRunLittle) {
  limits.max_slots = 32;
  limits.kv_groups[0].num_blocks = 200;
  limits.max_step_tokens = 200;
  Start();
  SubmitOf("small", 1);
  for (RequestKey key = 11; key < 51; ++key) SubmitOf("large", key);
  const StepPlan* plan = Plan();
  EXPECT_EQ(plan->started.size(), 30u) << "two of 32 are kept";
  SubmitOf("small", 2);
  EXPECT_NE(FindStarted(*Plan(), 2), nullptr);
}

TEST_F(SchedulerFairnessTest, AloneATenantHasAllSlots) {
  limits.max_slots = 32;
  limits.kv_groups[0].num_blocks = 200;
  limits.max_step_tokens = 200;
  Start();
  for (RequestKey key = 11; key < 51; ++key) SubmitOf("large", key);
  EXPECT_EQ(Plan()->started.size(), 32u);
}

// More comes than can be served, for all priorities: a little from tenants that stay, and so much
// from ever new ones, which were served nothing yet, that there would be no room for others.
class StarvationWorld {
 public:
  explicit StarvationWorld(uint64_t seed)
      : random_(seed), scheduler_(Config(), MakePriorityPolicy(absl::Milliseconds(500))) {
    WorkerLimits limits{.kv_groups = {{.block_size_tokens = 4, .num_blocks = 24}},
                        .max_slots = 3,
                        .max_step_tokens = 16,
                        .max_context_tokens = 64};
    EXPECT_TRUE(scheduler_.AttachWorker(limits, now_).ok());
    worker_ = std::make_unique<ModelWorker>(limits);
  }

  void Run(int num_steps) {
    for (int i = 0; i < num_steps; ++i) {
      now_ += absl::Milliseconds(10);
      for (uint32_t n = random_.Between(0, 3); n > 0; --n) Submit();
      while (std::optional<StepPlan> plan = scheduler_.NextStep(now_)) {
        for (const StartedSlot& started : plan->started) NoteStart(*started.request);
        planned_.push_back(*std::move(plan));
      }
      if (planned_.empty()) continue;
      ModelWorker::Executed executed;
      ASSERT_TRUE(worker_->Execute(planned_.front(), {}, executed).ok());
      planned_.pop_front();
      ASSERT_TRUE(scheduler_.Apply(std::move(executed.outcome), now_).ok());
      for (const SchedulerEvent& event : scheduler_.TakeEvents()) {
        const auto* finished = std::get_if<FinishedEvent>(&event);
        ASSERT_TRUE(finished == nullptr || finished->error.ok()) << finished->error;
      }
    }
    for (const auto& [key, arrival] : waiting_) longest_ = std::max(longest_, now_ - arrival);
  }

  absl::Duration longest() const { return longest_; }
  int num_refused() const { return num_refused_; }

 private:
  static SchedulerConfig Config() {
    SchedulerConfig config;
    config.max_waiting_requests = 200;
    return config;
  }

  void Submit() {
    auto request = std::make_shared<Request>();
    request->key = next_key_++;
    const uint32_t draw = random_.Between(0, 99);
    request->tenant = draw < 1   ? "large"
                      : draw < 2 ? "small"
                                 : "visitor " + std::to_string(request->key);
    request->priority = random_.OneIn(5) ? static_cast<int32_t>(random_.Between(0, 4)) - 2 : 0;
    request->arrival = now_;
    request->prompt_tokens = TextOf(static_cast<uint32_t>(request->key), random_.Between(1, 24));
    request->sampling.temperature = 0;
    request->sampling.max_new_tokens = random_.Between(1, 8);
    const RequestKey key = request->key;
    if (scheduler_.Submit(std::move(request), now_).ok()) {
      waiting_[key] = now_;
    } else {
      ++num_refused_;
    }
  }

  void NoteStart(const Request& request) {
    longest_ = std::max(longest_, now_ - request.arrival);
    waiting_.erase(request.key);
  }

  RandomSource random_;
  Instant now_ = Instant();
  Scheduler scheduler_;
  std::unique_ptr<ModelWorker> worker_;
  std::deque<StepPlan> planned_;
  std::map<RequestKey, Instant> waiting_;
  RequestKey next_key_ = 1;
  absl::Duration longest_;
  int num_refused_ = 0;
};

TEST(SchedulerStarvationTest, NobodyWaitsForEver) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StarvationWorld world(seed);
    world.Run(4000);
    EXPECT_GT(world.num_refused(), 500) << "seed " << seed << ": there is room for all";
    // Four levels of 500 ms, and the queue of 200, of which 50 start in a second. Without a turn of
    // the policy's own the run is too short for some.
    EXPECT_LT(world.longest(), absl::Seconds(8)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lockstep::router::testing
