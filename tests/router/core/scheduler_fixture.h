#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "router/core/scheduler.h"
#include "tests/router/core/model/model_worker.h"
#include "tests/router/core/model/reference_model.h"

namespace lockstep::router::testing {

// The first slot that a step starts for a request, or null.
const StartedSlot* FindStarted(const StepPlan& step, RequestKey request);

// A scheduler and a model worker that are driven by hand. Integrity is checked after every call;
// events are sorted by what they say.
class SchedulerTest : public ::testing::Test {
 protected:
  using Sample = std::pair<RequestKey, uint32_t>;

  SchedulerTest();

  // `config` and `limits` may be changed before. A new scheduler and a new worker.
  void Start(std::unique_ptr<SchedulingPolicy> policy = nullptr);
  void AttachWorker(const WorkerLimits& limits);
  void DetachWorker();

  // Greedy, no stop tokens; to be changed before it is submitted.
  std::shared_ptr<Request> MakeRequest(RequestKey key, std::vector<TokenId> prompt,
                                       uint32_t max_new_tokens);
  absl::Status TrySubmit(std::shared_ptr<const Request> request);
  void Submit(std::shared_ptr<const Request> request);
  void Submit(RequestKey key, std::vector<TokenId> prompt, uint32_t max_new_tokens);

  // NextStep. Null when nothing is planned; valid until the step is done.
  const StepPlan* Plan();
  // Plans; the tokens of each row in batch order.
  std::vector<uint32_t> PlanRowTokens();
  // The worker runs the oldest plan; its outcome is not applied yet.
  StepOutcome Execute(const ModelWorker::Faults& faults = {});
  absl::Status Apply(StepOutcome outcome);
  // Executes and applies.
  void Done(const ModelWorker::Faults& faults = {});
  // Plans while it can and finishes a step when it cannot, until `reached`; false if that never is.
  bool RunUntil(const std::function<bool()>& reached);
  void RunUntilIdle();

  void Cancel(RequestKey key);
  void Stop(RequestKey key, uint32_t sample_index = 0);
  SchedulerStats Stats() const { return scheduler->Stats(); }

  // What a sample has been sent, and how it ended (null while it has not).
  const std::vector<TokenId>& Tokens(RequestKey key, uint32_t sample_index = 0);
  const FinishedEvent* Ending(RequestKey key, uint32_t sample_index = 0) const;
  // It ended by itself, with the text of its lone run.
  void ExpectComplete(const Request& request, uint32_t sample_index = 0);

  SchedulerConfig config;
  WorkerLimits limits;
  Instant now = Instant();
  absl::Duration step_time;  // compute time that the worker reports
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<ModelWorker> worker;
  std::deque<StepPlan> planned;
  std::map<Sample, std::vector<TokenId>> tokens;
  std::map<Sample, FinishedEvent> endings;
  std::map<RequestKey, StartedEvent> admitted;
  std::map<RequestKey, std::vector<TokenLogprobs>> prompt_logprobs;

 private:
  void TakeEvents();
  void Check();
};

// A text in which no two blocks are equal to those of another `tag`.
std::vector<TokenId> TextOf(uint32_t tag, uint32_t num_tokens);

}  // namespace lockstep::router::testing
