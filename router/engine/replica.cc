#include "router/engine/replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "common/check.h"
#include "common/status.h"
#include "router/workers/step_codec.h"

namespace lockstep::router {
namespace {

// The check looks at every block and takes milliseconds. So it runs rarely, and only after the
// replica was idle for a while.
constexpr absl::Duration kIdleBeforeIntegrityCheck = absl::Milliseconds(100);
constexpr absl::Duration kIntegrityCheckInterval = absl::Minutes(1);

absl::Status ShuttingDown() { return absl::UnavailableError("the router is shutting down"); }

}  // namespace

Replica::Replica(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy, ReplicaPlace place)
    : state_(std::move(config), std::move(policy), std::move(place)),
      peers_(state_),
      life_(state_, peers_),
      metrics_(*state_.place.metrics) {}

Replica::~Replica() = default;

void Replica::Process(InboxBatch batch) {
  const Instant now = state_.place.clock->Now();
  for (LinkEvent& event : batch.link_events) {
    std::visit([&](auto& alternative) { HandleLinkEvent(std::move(alternative), now); }, event);
  }
  const NewWork added = TakeRequests(batch, now);
  for (const SequenceStop& stop : batch.stops) Stop(stop, now);
  for (const Cancellation& cancellation : batch.cancellations) Cancel(cancellation, now);
  if (batch.cancel_all) CancelAll(now);
  if (batch.dismissed) life_.StartLeaving(now);
  state_.scheduler.ExpireDeadlines(now);
  life_.ExpireWorker(now);
  peers_.MoveStranded(now);
  life_.ExpireWaits(now);
  SendSteps(now);
  state_.live.Deliver(state_.scheduler, now);
  life_.FinishLeaving(now);
  // Readers look at the counts when they see an end, so the counts are published first.
  PublishStats();
  const bool told = peers_.Tell(added.num_requests, added.num_tokens, now);
  if (told && life_.has_left()) state_.board.SetGone();
  state_.live.NotifyReaders();
  CheckIntegrityWhenIdle(now);
}

Instant Replica::NextWakeup() const {
  return std::min({state_.scheduler.NextDeadline(), state_.scheduler.NextStepAt(),
                   life_.NextDeadline(), peers_.NextWakeup(), check_integrity_at_});
}

// --- requests ---

Replica::NewWork Replica::TakeRequests(InboxBatch& batch, Instant now) {
  NewWork added;
  const auto count = [&added](const Submission& submission) {
    ++added.num_requests;
    added.num_tokens += submission.request->prompt_tokens.size();
  };
  for (Handover& handover : batch.handovers) {
    count(handover.delivery.submission);
    if (shutting_down_) {
      state_.live.Refuse(std::move(handover.delivery.submission), ShuttingDown());
    } else {
      peers_.TakeOver(std::move(handover), now);
    }
  }
  for (Submission& submission : batch.submissions) {
    count(submission);
    Accept(std::move(submission), now);
  }
  return added;
}

void Replica::Accept(Submission submission, Instant now) {
  absl::Status status;
  if (shutting_down_) {
    status = ShuttingDown();
  } else if (!state_.worker.attached() && !peers_.Take(*submission.request)) {
    status = state_.board.CheckWorker();  // otherwise the request moves on to a peer
  }
  if (status.ok()) status = state_.scheduler.Submit(submission.request, now);
  if (status.ok()) {
    state_.series.requests_total->Increment();
    state_.live.Add(std::move(submission));
  } else {
    state_.live.Refuse(std::move(submission), std::move(status));
  }
}

void Replica::Stop(const SequenceStop& stop, Instant now) {
  if (state_.live.Contains(stop.request)) {
    state_.scheduler.StopSequence(stop.request, stop.sample_index, now);
  } else {
    peers_.Stop(stop);
  }
}

void Replica::Cancel(const Cancellation& cancellation, Instant now) {
  if (state_.live.SetCancelled(cancellation.request, cancellation.cause)) {
    state_.scheduler.Cancel(cancellation.request, now);
  } else {
    peers_.Cancel(cancellation);
  }
}

void Replica::CancelAll(Instant now) {
  shutting_down_ = true;
  peers_.Close();
  for (const RequestKey key : state_.live.keys()) {
    Cancel({.request = key, .cause = CancelCause::kShutdown}, now);
  }
}

// --- steps ---

void Replica::SendSteps(Instant now) {
  while (state_.worker.attached()) {
    const Instant start = state_.place.clock->Now();
    std::optional<StepPlan> plan = state_.scheduler.NextStep(now);
    if (!plan.has_value()) return;
    state_.place.link->Send(EncodeStep(*plan, state_.worker.epoch()));
    if (!plan->rows.empty()) {
      metrics_.step_batch_sequences->Observe(static_cast<double>(plan->rows.size()));
      metrics_.At(metrics_.step_tokens, StepPhase::kPrefill).Observe(plan->num_prefill_tokens);
      metrics_.At(metrics_.step_tokens, StepPhase::kDecode).Observe(plan->num_decode_tokens);
    }
    state_.worker.AddStep({.plan = std::move(*plan),
                           .sent_at = now,
                           .router_time = state_.place.clock->Now() - start});
  }
}

void Replica::HandleLinkEvent(LinkResult event, Instant now) {
  ReplicaWorker& worker = state_.worker;
  const worker::v1::StepResult& result = event.result;
  if (!worker.attached() || result.epoch() != worker.epoch()) return;  // of an old lease
  absl::StatusOr<StepInFlight> step = worker.TakeStep(result, now);
  if (!step.ok()) {
    return life_.Break(Annotate(step.status(), "step result"), CircuitBreaker::Loss::kFailure, now);
  }
  state_.live.OnResult();
  const Instant start = state_.place.clock->Now();
  const CircuitState circuit_before = worker.circuit();
  const Fault fault = ApplyResult(result, *step, now);
  if (!fault.status.ok()) return life_.Break(fault.status, fault.loss, now);
  if (worker.circuit() != circuit_before) {
    spdlog::info("worker {} has proved itself: epoch {}", state_.place.worker, worker.epoch());
    life_.TellCircuit();
  }
  if (result.draining() && !worker.draining()) {
    life_.Drain(WorkerState::kDraining, "the worker is shutting down", now);
  }
  if (result.asked_back() && !worker.draining()) life_.GiveBack(now);
  const absl::Duration router_time = step->router_time + (state_.place.clock->Now() - start);
  metrics_.scheduler_step_seconds->Observe(absl::ToDoubleSeconds(router_time));
  metrics_.step_rtt_seconds->Observe(absl::ToDoubleSeconds(now - step->sent_at));
}

Replica::Fault Replica::ApplyResult(const worker::v1::StepResult& result, const StepInFlight& step,
                                    Instant now) {
  absl::StatusOr<StepOutcome> outcome = DecodeResult(result, step.plan);
  if (!outcome.ok()) return {.status = Annotate(outcome.status(), "step result")};
  // Step budgets and admission learn from this time, so a worker must not make it up.
  outcome->timings.compute = std::min(outcome->timings.compute, now - step.sent_at);
  const bool refused = !outcome->refusal.ok();
  if (refused) {
    spdlog::warn("worker {}: step {} was refused: {}", state_.place.worker, step.plan.step_id,
                 Message(outcome->refusal));
    // Judged before the outcome is applied. If the worker is given up over this refusal, the
    // refusal must not count against its requests.
    const absl::Status verdict = state_.worker.JudgeRefusal(step.plan, outcome->refusal);
    if (!verdict.ok()) return {.status = verdict, .loss = CircuitBreaker::Loss::kFaults};
  }
  const StepVerdict verdict = VerdictOf(*outcome);
  if (const absl::Status status = state_.scheduler.Apply(*std::move(outcome), now); !status.ok()) {
    return {.status = Annotate(status, "step result")};
  }
  if (refused) return {};
  return {.status = state_.worker.JudgeRows(step.plan, verdict, now),
          .loss = CircuitBreaker::Loss::kFaults};
}

StepVerdict Replica::VerdictOf(const StepOutcome& outcome) const {
  StepVerdict verdict;
  for (const RowOutcome& row : outcome.rows) {
    if (row.was_inert) ++verdict.num_inert_rows;
    if (row.error.ok()) continue;
    ++verdict.num_failed_rows;
    verdict.last_failure = row.error;
  }
  if (verdict.num_failed_rows > 0) {
    verdict.num_failed_requests = std::max(1u, state_.scheduler.CountFailedRequests(outcome));
  }
  return verdict;
}

// --- status ---

void Replica::PublishStats() {
  const SchedulerStats stats = state_.scheduler.Stats();
  const auto num_live = static_cast<uint32_t>(state_.live.size());
  const auto num_running = [](uint32_t live, const SchedulerStats& of) {
    return static_cast<double>(live - std::min(live, of.waiting_requests));
  };
  state_.series.Publish(stats);
  const StatusBoard::Counts before =
      state_.board.Exchange({.scheduler = stats, .live_requests = num_live});
  metrics_.Publish(stats, before.scheduler);
  metrics_.running_requests->Increment(num_running(num_live, stats) -
                                       num_running(before.live_requests, before.scheduler));
}

void Replica::CheckIntegrityWhenIdle(Instant now) {
  const bool idle = state_.scheduler.Idle();
  if (!idle) {
    check_integrity_at_ = Instant::InfiniteFuture();
  } else if (!was_idle_) {
    check_integrity_at_ =
        std::max(now + kIdleBeforeIntegrityCheck, integrity_checked_at_ + kIntegrityCheckInterval);
  } else if (now >= check_integrity_at_) {
    check_integrity_at_ = Instant::InfiniteFuture();
    integrity_checked_at_ = now;
    CheckIntegrity();
  }
  was_idle_ = idle;
}

void Replica::CheckIntegrity() const {
  const absl::Status status = state_.scheduler.CheckIntegrity();
  LOCKSTEP_CHECK(status.ok(), "the scheduler's books don't add up: {}", Message(status));
}

}  // namespace lockstep::router
