#include "tests/integration/serving_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <span>

#include "common/check.h"
#include "common/hash.h"
#include "common/status.h"
#include "router/workers/step_codec.h"
#include "tests/router/core/fcfs_policy.h"

namespace lockstep::testing {

using router::FinishedEvent;
using router::PromptLogprobsEvent;
using router::TokensEvent;

struct ServingHarness::InFlight {
  router::StepPlan plan;
  lockstep::worker::v1::StepRequest request;
};

WorkerUnderTest OnExecutor(worker::ForwardModel& model) {
  return {.info = model.info(),
          .make_runner = [&model](const worker::ExecutorLimits& limits,
                                  WorkerUnderTest::Observer observer) {
            auto executor =
                std::make_shared<worker::CpuStepRunner>(model, limits, /*incarnation=*/1);
            executor->set_logits_observer(std::move(observer));
            return executor;
          }};
}

ServingHarness::ServingHarness(const WorkerUnderTest& worker, router::SchedulerConfig config,
                               uint64_t seed)
    : worker_(worker), scheduler_(config, router::testing::MakeFcfsPolicy()), random_(seed) {}

ServingHarness::~ServingHarness() = default;

void ServingHarness::Submit(std::shared_ptr<const router::Request> request) {
  records_[request->key].samples.resize(request->num_samples);
  to_submit_.push_back(std::move(request));
}

void ServingHarness::Run(const std::vector<WorkerLife>& lives) {
  for (size_t i = 0; i < lives.size(); ++i) {
    const absl::Status status = RunLife(lives[i], i + 1 == lives.size());
    ASSERT_TRUE(status.ok()) << "life " << i << ": " << status;
    if (scheduler_.Idle() && to_submit_.empty()) break;
  }
  counts_.preemptions = scheduler_.Stats().preemptions;
  counts_.prefix_hit_tokens = scheduler_.Stats().prefix_hit_tokens;
  counts_.drafted_tokens = scheduler_.Stats().drafted_tokens;
  counts_.accepted_drafts = scheduler_.Stats().accepted_drafts;
}

absl::Status ServingHarness::RunLife(const WorkerLife& life, bool is_last) {
  worker::ExecutorLimits limits;
  limits.max_slots = life.limits.max_slots;
  limits.max_step_tokens = life.limits.max_step_tokens;
  limits.max_draft_tokens = worker_.max_draft_tokens;
  runner_ = worker_.make_runner(
      limits, [this](const worker::LogitsObservation& observation) { Observe(observation); });
  runner_->BeginLease(++epoch_);
  slot_owner_.clear();
  prefill_left_.clear();
  router::WorkerLimits announced = life.limits;
  announced.max_draft_tokens = runner_->bounds().max_draft_tokens;
  LOCKSTEP_RETURN_IF_ERROR(scheduler_.AttachWorker(announced, now_));
  if (epoch_ > 1) ++counts_.restarts;

  const uint64_t last_step = is_last ? UINT64_MAX : counts_.steps + life.num_steps;
  while (counts_.steps < last_step) {
    now_ += absl::Milliseconds(1);
    LOCKSTEP_RETURN_IF_ERROR(SubmitSome());
    for (auto [it, end] = cancellations_.equal_range(counts_.steps); it != end; ++it) {
      scheduler_.Cancel(it->second, now_);
    }
    const bool planned = Chance(0.7) && PlanOne();
    const bool can_submit = num_submitted_ < in_flight_.size();
    if (can_submit && (!planned || Chance(0.5))) SubmitOldest();
    if (num_submitted_ > 0 && (!planned || Chance(0.5))) LOCKSTEP_RETURN_IF_ERROR(ApplyOldest());
    LOCKSTEP_RETURN_IF_ERROR(observed_);
    LOCKSTEP_RETURN_IF_ERROR(CollectEvents());
    LOCKSTEP_RETURN_IF_ERROR(scheduler_.CheckIntegrity());
    if (scheduler_.Idle() && to_submit_.empty() && in_flight_.empty()) break;
  }
  // Whatever is still in flight is lost with the worker.
  in_flight_.clear();
  num_submitted_ = 0;
  lockstep::worker::v1::StepResult lost;
  worker::StepStats stats;
  while (runner_->num_pending() > 0) runner_->TakeResult(&lost, &stats);
  runner_->EndLease();
  scheduler_.DetachWorker(absl::UnavailableError("the test lost it"), now_);
  return CollectEvents();
}

absl::Status ServingHarness::SubmitSome() {
  while (!to_submit_.empty() && Chance(0.9)) {
    const absl::Status status = scheduler_.Submit(to_submit_.front(), now_);
    if (absl::IsResourceExhausted(status)) break;  // the queue is full: later
    LOCKSTEP_RETURN_IF_ERROR(status);
    to_submit_.pop_front();
  }
  return absl::OkStatus();
}

bool ServingHarness::PlanOne() {
  std::optional<router::StepPlan> plan = scheduler_.NextStep(now_);
  if (!plan) return false;
  ++counts_.steps;
  if (!in_flight_.empty()) ++counts_.overlapped_steps;
  if (plan->num_prefill_tokens > 0 && plan->num_decode_tokens > 0) ++counts_.mixed_steps;
  counts_.largest_batch = std::max<uint32_t>(counts_.largest_batch, plan->rows.size());
  InFlight step;
  // Through the wire format, as between processes.
  const std::string wire = router::EncodeStep(*plan, epoch_).SerializeAsString();
  LOCKSTEP_CHECK(step.request.ParseFromString(wire), "an encoded step must parse");
  step.plan = *std::move(plan);
  in_flight_.push_back(std::move(step));
  return true;
}

void ServingHarness::SubmitOldest() {
  InFlight& step = in_flight_[num_submitted_];
  for (const router::StartedSlot& started : step.plan.started) {
    slot_owner_[started.slot] = {started.request->key, started.sample_index};
    prefill_left_[started.slot] = started.known_tokens.size() - started.num_computed_tokens;
  }
  for (const router::RunRow& row : step.plan.rows) {
    uint32_t& left = prefill_left_[row.slot];
    if (row.num_tokens < left) ++counts_.partial_prefills;
    left -= std::min(left, row.num_tokens);
  }
  runner_->Submit(step.request);
  ++num_submitted_;
}

absl::Status ServingHarness::ApplyOldest() {
  InFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  --num_submitted_;
  lockstep::worker::v1::StepResult result;
  worker::StepStats stats;
  while (!runner_->TakeResult(&result, &stats)) {
  }
  if (result.has_refusal()) return Internal("a step was refused: {}", result.refusal().message());
  LOCKSTEP_ASSIGN_OR_RETURN(router::StepOutcome outcome, router::DecodeResult(result, step.plan));
  return scheduler_.Apply(std::move(outcome), now_);
}

absl::Status ServingHarness::CollectEvents() {
  for (router::SchedulerEvent& event : scheduler_.TakeEvents()) {
    if (auto* tokens = std::get_if<TokensEvent>(&event)) {
      SequenceRecord& record = records_[tokens->request].samples[tokens->sample_index];
      record.tokens.insert(record.tokens.end(), tokens->tokens.begin(), tokens->tokens.end());
      for (const router::TokenLogprobs& entry : tokens->logprobs) {
        record.logprob_bits.emplace_back(entry.token, std::bit_cast<uint32_t>(entry.logprob));
      }
    } else if (auto* prompt = std::get_if<PromptLogprobsEvent>(&event)) {
      for (const router::TokenLogprobs& entry : prompt->entries) {
        records_[prompt->request].prompt_logprob_bits.push_back(
            std::bit_cast<uint32_t>(entry.logprob));
      }
    } else if (auto* finished = std::get_if<FinishedEvent>(&event)) {
      SequenceRecord& record = records_[finished->request].samples[finished->sample_index];
      if (record.finished) return Internal("request {} ended twice", finished->request);
      record.finished = true;
      record.reason = finished->reason;
      record.error = finished->error;
    }
  }
  return absl::OkStatus();
}

void ServingHarness::Observe(const worker::LogitsObservation& observation) {
  const auto owner = slot_owner_.find(observation.slot);
  if (owner == slot_owner_.end()) {
    observed_ = Internal("logits of slot {}, which no sequence has", observation.slot);
    return;
  }
  const auto [request, sample] = owner->second;
  const uint64_t hash = Hash64(std::as_bytes(observation.logits));
  auto& hashes = records_[request].samples[sample].logit_hashes;
  const auto [known, is_new] = hashes.emplace(observation.position, hash);
  // A position computed twice (run-ahead, preemption, restart) must give the same bits again.
  if (!is_new && known->second != hash) ++counts_.changed_on_recompute;
}

}  // namespace lockstep::testing
