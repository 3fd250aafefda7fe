// The replica's side of its worker: leases that come, are proved, and are lost; steps and results.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "router/core/requests/sequence.h"
#include "router/engine/replica.h"
#include "router/workers/step_codec.h"
#include "router/workers/worker_contract.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {

void Replica::HandleLinkEvent(LinkUp event, Instant now) {
  if (epoch_ != 0) {
    LoseWorker(absl::UnavailableError("a new lease replaced the old one"), LossNow(), now);
  }
  if (retiring_) {
    return context_.link->DropLease(event.epoch, absl::CancelledError("its address is gone"));
  }
  const WorkerLimits limits = LimitsOf(event.description);
  if (const absl::Status status = JoinAgreement(BitsOf(event.description)); !status.ok()) {
    spdlog::warn("worker {} is not used: {}", context_.worker, Message(status));
    context_.link->DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  MoveUnfit(limits, BitsOf(event.description), now);
  absl::Status status;
  CountFailed([&] { status = scheduler_.AttachWorker(limits, now); }, now);
  if (!status.ok()) {
    membership_.reset();
    context_.link->DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  epoch_ = event.epoch;
  doomed_until_ = 0;
  limits_ = limits;
  breaker_.OnAttach();
  if (incarnation_ != 0 && incarnation_ != event.description.incarnation()) {
    worker_series_.restarts_total->Increment();
  }
  incarnation_ = event.description.incarnation();
  spdlog::info(
      "worker {} attached: epoch {}, incarnation {:016x}, weights {:016x} {}, numerics {:016x} on "
      "{}, {} blocks of {} tokens, {} slots",
      context_.worker, epoch_, incarnation_, event.description.weights_fingerprint(),
      QuoteWorker(event.description.weights_dtype()), event.description.numerics_id(),
      QuoteWorker(event.description.device()), limits.num_blocks, limits.block_size_tokens,
      limits.max_slots);
  CompareBits(event.description, now);
  if (HasPeers()) {
    context_.fleet->SetLease(context_.index, {.bits = *bits_, .limits = limits});
    TellLoad();  // before anybody places by it
  }
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kResumed)
      .Increment(static_cast<double>(live_.size()));
  SetWorker(WorkerState::kReady, fmt::format("ready: {}", QuoteWorker(event.description.device())),
            Instant::InfiniteFuture());
  MutexLock lock(mutex_);
  status_.description = std::move(event.description);
}

absl::Status Replica::JoinAgreement(const WorkerBits& bits) {
  if (context_.agreement == nullptr) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(membership_, context_.agreement->Join(bits));
  return absl::OkStatus();
}

void Replica::CompareBits(const worker::v1::DescribeResponse& description, Instant now) {
  const WorkerBits bits = BitsOf(description);
  if (bits_.has_value() && *bits_ != bits) {
    const absl::Status reason = Unavailable(
        "the worker that came back computes other bits: numerics id {:016x} and weights {:016x} "
        "instead of {:016x} and {:016x}; what was begun before cannot be continued",
        bits.numerics_id, bits.weights_fingerprint, bits_->numerics_id, bits_->weights_fingerprint);
    CountFailed(
        [&] {
          const uint32_t num_failed = scheduler_.FailWithOutput(reason, now);
          spdlog::warn("{} requests fail: {}", num_failed, Message(reason));
        },
        now);
  }
  bits_ = bits;
}

template <typename Change>
void Replica::CountFailed(Change change, Instant now) {
  DeliverEvents(now);
  const size_t num_before = live_.size();
  change();
  DeliverEvents(now);
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kFailed)
      .Increment(static_cast<double>(num_before - live_.size()));
}

void Replica::HandleLinkEvent(LinkResult event, Instant now) {
  const worker::v1::StepResult& result = event.result;
  if (epoch_ == 0 || result.epoch() != epoch_) return;  // of a lease that is over
  if (result.incarnation() != incarnation_) {
    return BreakLease(Internal("step result: incarnation: expected {:016x}, got {:016x}",
                               incarnation_, result.incarnation()),
                      CircuitBreaker::Loss::kFailure, now);
  }
  if (in_flight_.empty()) {
    return BreakLease(
        Internal("step result: step_id: got {} with no step in flight", result.step_id()),
        CircuitBreaker::Loss::kFailure, now);
  }
  StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  last_result_at_ = now;
  live_.OnResult();
  const Instant start = context_.clock->Now();
  absl::StatusOr<StepOutcome> outcome = DecodeResult(result, step.plan);
  if (!outcome.ok()) {
    return BreakLease(Annotate(outcome.status(), "step result"), CircuitBreaker::Loss::kFailure,
                      now);
  }
  // Step budgets and admission learn from it, so a worker must not make it up.
  outcome->timings.compute = std::min(outcome->timings.compute, now - step.sent_at);
  // Before it is applied: what the worker is given up over, its requests do not fail over.
  if (!outcome->refusal.ok() && !JudgeRefusal(step.plan, outcome->refusal, now)) return;
  const ResultVerdict verdict = VerdictOf(*outcome);
  if (const absl::Status status = scheduler_.Apply(*std::move(outcome), now); !status.ok()) {
    return BreakLease(Annotate(status, "step result"), CircuitBreaker::Loss::kFailure, now);
  }
  if (!JudgeRows(step.plan, verdict, now)) return;
  if (result.draining() && !worker_draining_) NoteDraining("the worker is shutting down", now);
  const absl::Duration router_time = step.router_time + (context_.clock->Now() - start);
  metrics_.scheduler_step_seconds->Observe(absl::ToDoubleSeconds(router_time));
  metrics_.step_rtt_seconds->Observe(absl::ToDoubleSeconds(now - step.sent_at));
}

void Replica::HandleLinkEvent(LinkDown event, Instant now) {
  if (event.epoch != 0) {
    if (event.epoch == epoch_) LoseWorker(event.reason, LossNow(), now);
    return;
  }
  if (epoch_ != 0) return;
  // An attempt to connect failed; why is what clients and operators want to read.
  const bool mismatched = event.reason.code() == absl::StatusCode::kFailedPrecondition;
  const bool ever_attached = lost_at_ != Instant::InfinitePast();
  NoteUnusable(event.reason, mismatched      ? WorkerState::kMismatched
                             : ever_attached ? WorkerState::kLost
                                             : WorkerState::kConnecting);
}

// A sequence that no worker can run fails before a worker is given up over it.
static_assert(CircuitBreaker::kMaxFaults > kMaxRefusals);

bool Replica::JudgeRefusal(const StepPlan& plan, const absl::Status& refusal, Instant now) {
  spdlog::warn("worker {}: step {} was refused: {}", context_.worker, plan.step_id,
               Message(refusal));
  // What was sent before the worker had refused a step it refuses as well, and may.
  if (plan.rows.empty() || plan.step_id <= doomed_until_) return true;
  doomed_until_ = in_flight_.empty() ? plan.step_id : in_flight_.back().plan.step_id;
  return !IsGivenUpAfter(1, refusal, now);
}

Replica::ResultVerdict Replica::VerdictOf(const StepOutcome& outcome) const {
  ResultVerdict verdict{.refused = !outcome.refusal.ok(), .last_failure = {}};
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

bool Replica::JudgeRows(const StepPlan& plan, const ResultVerdict& verdict, Instant now) {
  const uint64_t num_rows = plan.rows.size();
  if (verdict.refused || verdict.num_inert_rows == num_rows) return true;  // nothing ran
  if (verdict.num_failed_rows + verdict.num_inert_rows == num_rows) {
    return !IsGivenUpAfter(verdict.num_failed_requests, verdict.last_failure, now);
  }
  const CircuitState before = breaker_.state();
  breaker_.OnResult(now);
  if (breaker_.state() == before) return true;
  spdlog::info("worker {} has proved itself: epoch {}", context_.worker, epoch_);
  TellCircuit(worker_draining_ ? WorkerState::kDraining : WorkerState::kReady);
  return true;
}

bool Replica::IsGivenUpAfter(uint32_t num_faults, const absl::Status& last, Instant now) {
  if (!breaker_.OnFaults(num_faults)) return false;
  BreakLease(Unavailable("the worker refused or failed what it was told {} times in a row, the "
                         "last time with: {}",
                         breaker_.num_faults(), Message(last)),
             CircuitBreaker::Loss::kFaults, now);
  return true;
}

void Replica::NoteDraining(std::string text, Instant now) {
  spdlog::info("worker {} drains: epoch {}; nothing new is started on it: {}", context_.worker,
               epoch_, text);
  worker_draining_ = true;
  membership_.reset();
  scheduler_.DrainWorker(now);
  SetWorker(WorkerState::kDraining, std::move(text), Instant::InfiniteFuture());
}

void Replica::NoteUnusable(const absl::Status& reason, WorkerState state) {
  lost_reason_ = reason;
  SetWorker(state, Message(reason), lost_at_);
}

CircuitBreaker::Loss Replica::LossNow() const {
  return in_flight_.empty() || worker_draining_ ? CircuitBreaker::Loss::kIdle
                                                : CircuitBreaker::Loss::kFailure;
}

void Replica::BreakLease(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  context_.link->DropLease(epoch_, reason);
  LoseWorker(reason, loss, now);
}

void Replica::LoseWorker(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  spdlog::warn("worker {} lost: epoch {}, {} steps in flight, {} requests: {}", context_.worker,
               epoch_, in_flight_.size(), live_.size(), Message(reason));
  epoch_ = 0;
  worker_draining_ = false;
  membership_.reset();
  in_flight_.clear();
  lost_at_ = now;
  lost_reason_ = reason;
  breaker_.OnLoss(loss);
  CountFailed([&] { scheduler_.DetachWorker(reason, now); }, now);
  SetWorker(WorkerState::kLost, Message(reason), now);
}

void Replica::ExpireWorker(Instant now) {
  scheduler_.ExpireDeadlines(now);
  if (now < WorkerDeadline()) return;
  const std::string what =
      in_flight_.empty() ? "the drained worker did not end its lease"
                         : fmt::format("step {} had no result", in_flight_.front().plan.step_id);
  BreakLease(MakeError(absl::StatusCode::kDeadlineExceeded, "{} after {}", what,
                       absl::FormatDuration(config_.step_timeout)),
             in_flight_.empty() ? CircuitBreaker::Loss::kIdle : CircuitBreaker::Loss::kHang, now);
}

void Replica::ExpireWaits(Instant now) {
  if (now < FailoverDeadline()) return;
  const std::string wait = absl::FormatDuration(config_.failover_wait);
  const absl::Status reason =
      worker_draining_
          ? Unavailable("the worker is shutting down and no other one came within {}", wait)
          : Unavailable("the worker was lost and none came back within {} that got any further: {}",
                        wait, Message(lost_reason_));
  CountFailed([&] { scheduler_.FailUnserved(now - config_.failover_wait, reason, now); }, now);
}

Instant Replica::WorkerDeadline() const {
  if (in_flight_.empty()) {
    return worker_draining_ ? last_result_at_ + config_.step_timeout : Instant::InfiniteFuture();
  }
  // Steps run one after the other: the oldest began when the one before it was done.
  return std::max(in_flight_.front().sent_at, last_result_at_) + config_.step_timeout;
}

void Replica::SendSteps(Instant now) {
  while (epoch_ != 0) {
    const Instant start = context_.clock->Now();
    std::optional<StepPlan> plan = scheduler_.NextStep(now);
    if (!plan.has_value()) return;
    context_.link->Send(EncodeStep(*plan, epoch_));
    if (!plan->rows.empty()) {
      metrics_.step_batch_sequences->Observe(static_cast<double>(plan->rows.size()));
      metrics_.At(metrics_.step_tokens, StepPhase::kPrefill).Observe(plan->num_prefill_tokens);
      metrics_.At(metrics_.step_tokens, StepPhase::kDecode).Observe(plan->num_decode_tokens);
    }
    in_flight_.push_back(
        {.plan = std::move(*plan), .sent_at = now, .router_time = context_.clock->Now() - start});
  }
}

}  // namespace lockstep::router
