#include "router/engine/replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"
#include "common/violations.h"
#include "router/workers/step_codec.h"
#include "router/workers/worker_contract.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {
namespace {

// Looking at every block takes milliseconds: not while somebody may be about to come, and rarely.
constexpr absl::Duration kIdleBeforeIntegrityCheck = absl::Milliseconds(100);
constexpr absl::Duration kIntegrityCheckInterval = absl::Minutes(1);

constexpr char kOwnerIsBack[] = "the router that the worker belongs to is back";

absl::Status ShuttingDown() { return absl::UnavailableError("the router is shutting down"); }

// ", 5.1 GB"; nothing if the worker does not say it.
std::string SizeText(uint64_t num_bytes) {
  return num_bytes == 0 ? "" : fmt::format(", {:.1f} GB", static_cast<double>(num_bytes) * 1e-9);
}

// Such as "4096", or "4096 + 512" with a second KV group.
std::string BlocksText(const KvGroups& groups) {
  std::string text;
  for (const KvGroup& group : groups) {
    text += fmt::format("{}{}", text.empty() ? "" : " + ", group.num_blocks);
  }
  return text;
}

}  // namespace

absl::Status ReplicaConfig::Validate() const {
  Violations violations;
  violations.Merge(scheduler.Validate());
  violations.Require(step_timeout > absl::ZeroDuration(), "step_timeout: must be positive");
  violations.Require(failover_wait >= absl::ZeroDuration(), "failover_wait: must not be negative");
  violations.Require(no_worker_grace >= absl::ZeroDuration(),
                     "no_worker_grace: must not be negative");
  return violations.ToStatus();
}

Replica::Replica(ReplicaConfig config, std::unique_ptr<SchedulingPolicy> policy, Context context)
    : config_(std::move(config)),
      context_(std::move(context)),
      metrics_(*context_.metrics),
      worker_series_(metrics_.ForWorker(context_.worker)),
      scheduler_(config_.scheduler, std::move(policy)),
      live_(metrics_, context_.worker),
      peers_({.fleet = context_.fleet,
              .index = context_.index,
              .worker_address = context_.worker,
              .scheduler = scheduler_,
              .live = live_,
              .worker = worker_,
              .metrics = metrics_,
              .series = worker_series_}),
      board_(context_.worker, context_.clock, config_.no_worker_grace) {
  worker_series_.SetState(WorkerState::kConnecting);
  worker_series_.SetCircuit(worker_.circuit());
  metrics_.At(metrics_.shard_workers, context_.owner).Increment();
}

Replica::~Replica() {
  if (worker_.attached()) metrics_.At(metrics_.shard_leases, context_.owner).Decrement();
  metrics_.At(metrics_.shard_workers, context_.owner).Decrement();
}

void Replica::Process(InboxBatch batch) {
  const Instant now = context_.clock->Now();
  for (LinkEvent& event : batch.link_events) {
    std::visit([&](auto& alternative) { HandleLinkEvent(std::move(alternative), now); }, event);
  }
  uint32_t num_new_requests = 0;
  uint64_t num_new_tokens = 0;
  const auto count = [&](const Submission& submission) {
    ++num_new_requests;
    num_new_tokens += submission.request->prompt_tokens.size();
  };
  for (Handover& handover : batch.handovers) {
    count(handover.delivery.submission);
    if (shutting_down_) {
      live_.Refuse(std::move(handover.delivery.submission), ShuttingDown());
    } else {
      peers_.TakeOver(std::move(handover), now);
    }
  }
  for (Submission& submission : batch.submissions) {
    count(submission);
    Accept(std::move(submission), now);
  }
  for (const SequenceStop& stop : batch.stops) Stop(stop, now);
  for (const Cancellation& cancellation : batch.cancellations) Cancel(cancellation, now);
  if (batch.cancel_all) CancelAll(now);
  if (batch.dismissed) StartLeaving(now);
  ExpireWorker(now);
  peers_.MoveStranded(now);
  ExpireWaits(now);
  SendSteps(now);
  live_.Deliver(scheduler_, now);
  FinishLeaving(now);
  // Readers look at the counts once they were told of an end: the counts come first.
  PublishStats();
  const bool told = peers_.Tell(num_new_requests, num_new_tokens, now);
  if (leaving_ && told && live_.empty() && !worker_.attached()) board_.SetGone();
  live_.NotifyReaders();
  CheckIntegrityWhenIdle(now);
}

Instant Replica::NextWakeup() const {
  return std::min({scheduler_.NextDeadline(), scheduler_.NextStepAt(),
                   worker_.Deadline(config_.step_timeout), FailoverDeadline(), peers_.NextWakeup(),
                   check_integrity_at_});
}

// --- requests ---

void Replica::Accept(Submission submission, Instant now) {
  absl::Status status;
  if (shutting_down_) {
    status = ShuttingDown();
  } else if (!worker_.attached() && !peers_.Take(*submission.request)) {
    status = board_.CheckWorker();  // otherwise it moves on to a peer
  }
  if (status.ok()) status = scheduler_.Submit(submission.request, now);
  if (status.ok()) {
    worker_series_.requests_total->Increment();
    live_.Add(std::move(submission));
  } else {
    live_.Refuse(std::move(submission), std::move(status));
  }
}

void Replica::Stop(const SequenceStop& stop, Instant now) {
  if (live_.Contains(stop.request)) {
    scheduler_.StopSequence(stop.request, stop.sample_index, now);
  } else {
    peers_.Stop(stop);
  }
}

void Replica::Cancel(const Cancellation& cancellation, Instant now) {
  if (live_.SetCancelled(cancellation.request, cancellation.cause)) {
    scheduler_.Cancel(cancellation.request, now);
  } else {
    peers_.Cancel(cancellation);
  }
}

void Replica::CancelAll(Instant now) {
  shutting_down_ = true;
  peers_.Close();
  for (const RequestKey key : live_.keys()) {
    Cancel({.request = key, .cause = CancelCause::kShutdown}, now);
  }
}

// --- the worker ---

void Replica::HandleLinkEvent(LinkUp event, Instant now) {
  if (worker_.attached()) {
    LoseWorker(absl::UnavailableError("a new lease replaced the old one"), worker_.LossNow(), now);
  }
  if (leaving_) {
    return context_.link->DropLease(event.epoch, absl::CancelledError("its address is gone"));
  }
  const WorkerLimits limits = LimitsOf(event.description);
  const WorkerBits bits = BitsOf(event.description);
  if (const absl::Status status = JoinAgreement(bits); !status.ok()) {
    spdlog::warn("worker {} is not used: {}", context_.worker, Message(status));
    context_.link->DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  peers_.MoveUnfit(limits, bits, now);
  absl::Status status;
  CountFailed([&] { status = scheduler_.AttachWorker(limits, now); }, now);
  if (!status.ok()) {
    membership_.reset();
    context_.link->DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  const WorkerBits bits_before = worker_.bits().value_or(bits);
  if (worker_.Begin(event.epoch, event.description)) worker_series_.restarts_total->Increment();
  spdlog::info(
      "worker {} attached: epoch {}, incarnation {:016x}, weights {:016x} {}, numerics {:016x} on "
      "{}, ranks {}, {} blocks of {} tokens, {} slots",
      context_.worker, worker_.epoch(), worker_.incarnation(),
      event.description.weights_fingerprint(), QuoteWorker(event.description.weights_dtype()),
      event.description.numerics_id(), QuoteWorker(event.description.device()),
      std::max(event.description.tensor_parallel(), 1u), BlocksText(limits.kv_groups),
      limits.block_size_tokens(), limits.max_slots);
  metrics_.kv_block_tokens->Set(limits.block_size_tokens());
  metrics_.At(metrics_.shard_leases, context_.owner).Increment();
  if (context_.owner == WorkerOwner::kOther) metrics_.shard_takeovers_total->Increment();
  if (bits != bits_before) FailOtherBits(bits_before, now);
  peers_.TellLease();
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kResumed)
      .Increment(live_.TakeResumed());
  SetWorker(WorkerState::kReady,
            fmt::format("ready: {}, weights in {}{}", QuoteWorker(event.description.device()),
                        QuoteWorker(event.description.weights_dtype()),
                        SizeText(event.description.weights_bytes())),
            Instant::InfiniteFuture());
  board_.SetDescription(std::move(event.description));
}

absl::Status Replica::JoinAgreement(const WorkerBits& bits) {
  if (context_.agreement == nullptr) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(membership_, context_.agreement->Join(bits));
  return absl::OkStatus();
}

void Replica::FailOtherBits(const WorkerBits& before, Instant now) {
  const WorkerBits& bits = *worker_.bits();
  const absl::Status reason = Unavailable(
      "the worker that came back computes other bits: numerics id {:016x} and weights {:016x} "
      "instead of {:016x} and {:016x}; what was begun before cannot be continued",
      bits.numerics_id, bits.weights_fingerprint, before.numerics_id, before.weights_fingerprint);
  CountFailed(
      [&] {
        const uint32_t num_failed = scheduler_.FailWithOutput(reason, now);
        spdlog::warn("{} requests fail: {}", num_failed, Message(reason));
      },
      now);
}

template <typename Change>
void Replica::CountFailed(Change change, Instant now) {
  live_.Deliver(scheduler_, now);
  const size_t num_before = live_.size();
  change();
  live_.Deliver(scheduler_, now);
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kFailed)
      .Increment(static_cast<double>(num_before - live_.size()));
}

void Replica::HandleLinkEvent(LinkResult event, Instant now) {
  const worker::v1::StepResult& result = event.result;
  if (!worker_.attached() || result.epoch() != worker_.epoch()) return;  // of a lease that is over
  const auto fail = [&](const absl::Status& reason) {
    BreakLease(Annotate(reason, "step result"), CircuitBreaker::Loss::kFailure, now);
  };
  absl::StatusOr<StepInFlight> step = worker_.TakeStep(result, now);
  if (!step.ok()) return fail(step.status());
  live_.OnResult();
  const Instant start = context_.clock->Now();
  absl::StatusOr<StepOutcome> outcome = DecodeResult(result, step->plan);
  if (!outcome.ok()) return fail(outcome.status());
  // Step budgets and admission learn from it, so a worker must not make it up.
  outcome->timings.compute = std::min(outcome->timings.compute, now - step->sent_at);
  const CircuitState circuit_before = worker_.circuit();
  const bool refused = !outcome->refusal.ok();
  if (refused) {
    spdlog::warn("worker {}: step {} was refused: {}", context_.worker, step->plan.step_id,
                 Message(outcome->refusal));
    // Before the outcome is applied: what the worker is given up over must not count against its
    // requests.
    const absl::Status verdict = worker_.JudgeRefusal(step->plan, outcome->refusal);
    if (!verdict.ok()) return BreakLease(verdict, CircuitBreaker::Loss::kFaults, now);
  }
  const StepVerdict verdict = VerdictOf(*outcome);
  if (const absl::Status status = scheduler_.Apply(*std::move(outcome), now); !status.ok()) {
    return fail(status);
  }
  if (!refused) {
    const absl::Status status = worker_.JudgeRows(step->plan, verdict, now);
    if (!status.ok()) return BreakLease(status, CircuitBreaker::Loss::kFaults, now);
  }
  if (worker_.circuit() != circuit_before) {
    spdlog::info("worker {} has proved itself: epoch {}", context_.worker, worker_.epoch());
    TellCircuit(board_.worker_state());
  }
  if (result.draining() && !worker_.draining()) {
    NoteDraining(WorkerState::kDraining, "the worker is shutting down", now);
  }
  if (result.asked_back() && !worker_.draining()) {
    NoteDraining(WorkerState::kStandby, kOwnerIsBack, now);
  }
  const absl::Duration router_time = step->router_time + (context_.clock->Now() - start);
  metrics_.scheduler_step_seconds->Observe(absl::ToDoubleSeconds(router_time));
  metrics_.step_rtt_seconds->Observe(absl::ToDoubleSeconds(now - step->sent_at));
}

void Replica::HandleLinkEvent(LinkDown event, Instant now) {
  if (event.epoch != 0) {
    if (event.epoch == worker_.epoch()) LoseWorker(event.reason, worker_.LossNow(), now);
    return;
  }
  if (worker_.attached()) return;
  // An attempt to connect failed; why is what clients and operators want to read.
  const bool mismatched = event.reason.code() == absl::StatusCode::kFailedPrecondition;
  const bool ever_attached = worker_.lost_at() != Instant::InfinitePast();
  NoteUnusable(event.reason, mismatched      ? WorkerState::kMismatched
                             : ever_attached ? WorkerState::kLost
                                             : WorkerState::kConnecting);
}

void Replica::HandleLinkEvent(LinkStandby event, Instant /*now*/) {
  if (worker_.attached() || leaving_) return;
  if (event.served) worker_.ForgetFailures();
  NoteUnusable(absl::UnavailableError(event.text), WorkerState::kStandby);
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
    verdict.num_failed_requests = std::max(1u, scheduler_.CountFailedRequests(outcome));
  }
  return verdict;
}

void Replica::NoteDraining(WorkerState state, std::string text, Instant now) {
  spdlog::info("worker {} drains: epoch {}; nothing new is started on it: {}", context_.worker,
               worker_.epoch(), text);
  worker_.Drain();
  membership_.reset();
  scheduler_.DrainWorker(now);
  SetWorker(state, std::move(text), Instant::InfiniteFuture());
}

void Replica::NoteUnusable(const absl::Status& reason, WorkerState state) {
  worker_.set_lost_reason(reason);
  SetWorker(state, Message(reason), worker_.lost_at());
}

void Replica::BreakLease(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  context_.link->DropLease(worker_.epoch(), reason);
  LoseWorker(reason, loss, now);
}

void Replica::LoseWorker(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  // It went back to its owner and will not return soon, so no request waits for it.
  const bool given_back =
      context_.owner == WorkerOwner::kOther && board_.worker_state() == WorkerState::kStandby;
  spdlog::log(given_back ? spdlog::level::info : spdlog::level::warn,
              "worker {} {}: epoch {}, {} steps in flight, {} requests: {}", context_.worker,
              given_back ? "given back" : "lost", worker_.epoch(), worker_.num_in_flight(),
              live_.size(), Message(reason));
  worker_.End(reason, loss, now);
  metrics_.At(metrics_.shard_leases, context_.owner).Decrement();
  membership_.reset();
  CountFailed(
      [&] {
        live_.NoteWorkerLost(now);
        scheduler_.DetachWorker(reason, now);
      },
      now);
  if (given_back) {
    SetWorker(WorkerState::kStandby, kOwnerIsBack, now);
  } else {
    SetWorker(WorkerState::kLost, Message(reason), now);
  }
}

void Replica::ExpireWorker(Instant now) {
  scheduler_.ExpireDeadlines(now);
  if (now < worker_.Deadline(config_.step_timeout)) return;
  const bool hangs = worker_.num_in_flight() > 0;
  BreakLease(worker_.Overdue(config_.step_timeout),
             hangs ? CircuitBreaker::Loss::kHang : CircuitBreaker::Loss::kIdle, now);
}

void Replica::ExpireWaits(Instant now) {
  if (now < FailoverDeadline()) return;
  const std::string wait = absl::FormatDuration(config_.failover_wait);
  absl::Status reason;
  if (board_.worker_state() == WorkerState::kStandby) {
    reason = Unavailable("the worker went to another router and no other one came within {}", wait);
  } else if (worker_.draining()) {
    reason = Unavailable("the worker is shutting down and no other one came within {}", wait);
  } else {
    reason =
        Unavailable("the worker was lost and none came back within {} that got any further: {}",
                    wait, Message(worker_.lost_reason()));
  }
  CountFailed([&] { scheduler_.FailUnserved(now - config_.failover_wait, reason, now); }, now);
}

void Replica::SendSteps(Instant now) {
  while (worker_.attached()) {
    const Instant start = context_.clock->Now();
    std::optional<StepPlan> plan = scheduler_.NextStep(now);
    if (!plan.has_value()) return;
    context_.link->Send(EncodeStep(*plan, worker_.epoch()));
    if (!plan->rows.empty()) {
      metrics_.step_batch_sequences->Observe(static_cast<double>(plan->rows.size()));
      metrics_.At(metrics_.step_tokens, StepPhase::kPrefill).Observe(plan->num_prefill_tokens);
      metrics_.At(metrics_.step_tokens, StepPhase::kDecode).Observe(plan->num_decode_tokens);
    }
    worker_.AddStep(
        {.plan = std::move(*plan), .sent_at = now, .router_time = context_.clock->Now() - start});
  }
}

// --- the end of a replica ---

void Replica::StartLeaving(Instant now) {
  leaving_ = true;
  constexpr char kText[] = "its address is gone";
  if (!worker_.attached()) return NoteUnusable(absl::UnavailableError(kText), WorkerState::kLost);
  if (!worker_.draining()) NoteDraining(WorkerState::kDraining, kText, now);
}

void Replica::FinishLeaving(Instant now) {
  if (!leaving_ || !live_.empty() || !worker_.attached()) return;
  BreakLease(absl::CancelledError("its address is gone and nothing runs on it"),
             CircuitBreaker::Loss::kIdle, now);
}

// --- status ---

void Replica::TellCircuit(WorkerState state) {
  worker_series_.SetCircuit(worker_.circuit());
  peers_.TellReadiness(state);
}

void Replica::SetWorker(WorkerState state, std::string text, Instant lost_at) {
  worker_changed_ = true;
  worker_series_.SetState(state);
  TellCircuit(state);
  board_.SetWorker(state, std::move(text), lost_at);
}

void Replica::PublishStats() {
  const SchedulerStats stats = scheduler_.Stats();
  const auto num_live = static_cast<uint32_t>(live_.size());
  const auto num_running = [](uint32_t live, const SchedulerStats& of) {
    return static_cast<double>(live - std::min(live, of.waiting_requests));
  };
  worker_series_.Publish(stats);
  const StatusBoard::Counts before =
      board_.Exchange({.scheduler = stats, .live_requests = num_live});
  metrics_.Publish(stats, before.scheduler);
  metrics_.running_requests->Increment(num_running(num_live, stats) -
                                       num_running(before.live_requests, before.scheduler));
}

void Replica::CheckIntegrityWhenIdle(Instant now) {
  const bool idle = scheduler_.Idle();
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
  const absl::Status status = scheduler_.CheckIntegrity();
  LOCKSTEP_CHECK(status.ok(), "the scheduler's books don't add up: {}", Message(status));
}

}  // namespace lockstep::router
