#include "tests/router/core/scheduler_fixture.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "common/status.h"
#include "tests/router/core/fcfs_policy.h"

namespace lockstep::router::testing {

const StartedSlot* FindStarted(const StepPlan& step, RequestKey request) {
  const auto found = std::ranges::find_if(
      step.started, [request](const StartedSlot& slot) { return slot.request->key == request; });
  return found == step.started.end() ? nullptr : &*found;
}

SchedulerTest::SchedulerTest() {
  limits.kv_groups[0].num_blocks = 32;
  limits.kv_groups[0].block_size_tokens = 4;
  limits.max_slots = 8;
  limits.max_step_tokens = 32;
  limits.max_context_tokens = 256;
}

void SchedulerTest::Start(std::unique_ptr<SchedulingPolicy> policy) {
  tokens.clear();
  endings.clear();
  admitted.clear();
  prompt_logprobs.clear();
  scheduler =
      std::make_unique<Scheduler>(config, policy == nullptr ? MakeFcfsPolicy() : std::move(policy));
  AttachWorker(limits);
}

void SchedulerTest::AttachWorker(const WorkerLimits& worker_limits) {
  planned.clear();
  worker = std::make_unique<ModelWorker>(worker_limits);
  ASSERT_TRUE(scheduler->AttachWorker(worker_limits, now).ok());
  Check();
}

void SchedulerTest::DetachWorker() {
  planned.clear();
  worker.reset();
  scheduler->DetachWorker(Unavailable("the test lost it"), now);
  Check();
}

std::shared_ptr<Request> SchedulerTest::MakeRequest(RequestKey key, std::vector<TokenId> prompt,
                                                    uint32_t max_new_tokens) {
  auto request = std::make_shared<Request>();
  request->key = key;
  request->arrival = now;
  request->prompt_tokens = std::move(prompt);
  request->sampling.temperature = 0;
  request->sampling.max_new_tokens = max_new_tokens;
  return request;
}

absl::Status SchedulerTest::TrySubmit(std::shared_ptr<const Request> request) {
  const absl::Status status = scheduler->Submit(std::move(request), now);
  Check();
  return status;
}

void SchedulerTest::Submit(std::shared_ptr<const Request> request) {
  const absl::Status status = TrySubmit(std::move(request));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

void SchedulerTest::Submit(RequestKey key, std::vector<TokenId> prompt, uint32_t max_new_tokens) {
  Submit(MakeRequest(key, std::move(prompt), max_new_tokens));
}

const StepPlan* SchedulerTest::Plan() {
  std::optional<StepPlan> plan = scheduler->NextStep(now);
  Check();
  if (!plan.has_value()) return nullptr;
  planned.push_back(*std::move(plan));
  return &planned.back();
}

std::vector<uint32_t> SchedulerTest::PlanRowTokens() {
  const StepPlan* plan = Plan();
  std::vector<uint32_t> row_tokens;
  if (plan == nullptr) return row_tokens;
  for (const RunRow& row : plan->rows) row_tokens.push_back(row.num_tokens);
  return row_tokens;
}

StepOutcome SchedulerTest::Execute(const ModelWorker::Faults& faults) {
  EXPECT_FALSE(planned.empty()) << "no step is in flight";
  if (planned.empty()) return {};
  ModelWorker::Executed executed;
  const absl::Status status = worker->Execute(planned.front(), faults, executed);
  EXPECT_TRUE(status.ok()) << status.ToString();
  executed.outcome.timings.compute = step_time;
  planned.pop_front();
  return std::move(executed.outcome);
}

absl::Status SchedulerTest::Apply(StepOutcome outcome) {
  const absl::Status status = scheduler->Apply(std::move(outcome), now);
  Check();
  return status;
}

void SchedulerTest::Done(const ModelWorker::Faults& faults) {
  const absl::Status status = Apply(Execute(faults));
  EXPECT_TRUE(status.ok()) << status.ToString();
}

bool SchedulerTest::RunUntil(const std::function<bool()>& reached) {
  for (int i = 0; i < 10000 && !HasFailure(); ++i) {
    if (reached()) return true;
    if (Plan() != nullptr || reached()) continue;
    if (planned.empty()) return false;
    Done();
  }
  return false;
}

void SchedulerTest::RunUntilIdle() {
  EXPECT_TRUE(RunUntil([this] { return scheduler->Idle(); })) << "it never becomes idle";
  EXPECT_EQ(Stats().used_blocks + Stats().fenced_blocks, 0u);
}

void SchedulerTest::Cancel(RequestKey key) {
  scheduler->Cancel(key, now);
  Check();
}

void SchedulerTest::Stop(RequestKey key, uint32_t sample_index) {
  scheduler->StopSequence(key, sample_index, now);
  Check();
}

const std::vector<TokenId>& SchedulerTest::Tokens(RequestKey key, uint32_t sample_index) {
  return tokens[{key, sample_index}];
}

const FinishedEvent* SchedulerTest::Ending(RequestKey key, uint32_t sample_index) const {
  const auto found = endings.find({key, sample_index});
  return found == endings.end() ? nullptr : &found->second;
}

void SchedulerTest::ExpectComplete(const Request& request, uint32_t sample_index) {
  const FinishedEvent* ending = Ending(request.key, sample_index);
  ASSERT_NE(ending, nullptr) << "sample " << sample_index << " has not ended";
  EXPECT_TRUE(ending->error.ok()) << ending->error.ToString();
  EXPECT_NE(ending->reason, FinishReason::kAborted);
  EXPECT_EQ(Tokens(request.key, sample_index), RunAlone(request, sample_index).tokens);
}

void SchedulerTest::TakeEvents() {
  for (SchedulerEvent& event : scheduler->TakeEvents()) {
    if (auto* sent = std::get_if<TokensEvent>(&event)) {
      EXPECT_FALSE(endings.contains({sent->request, sent->sample_index})) << "tokens after the end";
      std::vector<TokenId>& all = tokens[{sent->request, sent->sample_index}];
      std::ranges::copy(sent->tokens, std::back_inserter(all));
    } else if (auto* ended = std::get_if<FinishedEvent>(&event)) {
      const Sample sample = {ended->request, ended->sample_index};
      EXPECT_TRUE(endings.emplace(sample, *ended).second) << "ended twice";
    } else if (auto* started = std::get_if<StartedEvent>(&event)) {
      EXPECT_TRUE(admitted.emplace(started->request, *started).second) << "admitted twice";
    } else if (auto* logprobs = std::get_if<PromptLogprobsEvent>(&event)) {
      EXPECT_TRUE(prompt_logprobs.emplace(logprobs->request, logprobs->entries).second) << "twice";
    }
  }
}

void SchedulerTest::Check() {
  TakeEvents();
  const absl::Status status = scheduler->CheckIntegrity();
  EXPECT_TRUE(status.ok()) << status.ToString();
}

std::vector<TokenId> TextOf(uint32_t tag, uint32_t num_tokens) {
  std::vector<TokenId> text;
  for (uint32_t i = 0; i < num_tokens; ++i) text.push_back(1000 * tag + i);
  return text;
}

}  // namespace lockstep::router::testing
