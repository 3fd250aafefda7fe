#include "router/engine/replica.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/check.h"
#include "common/status.h"
#include "router/engine/step_codec.h"
#include "router/engine/violations.h"
#include "router/engine/worker_contract.h"

namespace lockstep::router {
namespace {

constexpr absl::Duration kIntegrityCheckInterval = absl::Seconds(10);

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
      live_(metrics_),
      lost_reason_(absl::UnavailableError("no worker has been reached yet")) {
  worker_series_.SetState(WorkerState::kConnecting);
}

void Replica::Process(InboxBatch batch) {
  const absl::Time now = context_.clock->Now();
  for (LinkEvent& event : batch.link_events) {
    std::visit([&](auto& alternative) { HandleLinkEvent(std::move(alternative), now); }, event);
  }
  Arrivals arrivals;
  const auto count = [&arrivals](const Submission& submission) {
    ++arrivals.num_requests;
    arrivals.num_prompt_tokens += submission.request->prompt_tokens.size();
  };
  for (Handover& handover : batch.handovers) {
    count(handover.delivery.submission);
    TakeOver(std::move(handover));
  }
  for (Submission& submission : batch.submissions) {
    count(submission);
    Accept(std::move(submission), now);
  }
  for (const SequenceStop& stop : batch.stops) Stop(stop, now);
  for (const Cancellation& cancellation : batch.cancellations) Cancel(cancellation, now);
  if (batch.cancel_all) CancelAll(now);
  ExpireWorker(now);
  MoveStranded(now);
  ExpireWaits(now);
  SendSteps(now);
  DeliverEvents(now);
  // Readers look at the counts once they were told of an end: the counts come first.
  PublishStats();
  TellFleet(arrivals, now);
  live_.NotifyReaders();
  CheckIntegrityWhenIdle(now);
}

absl::Time Replica::NextWakeup() const {
  return std::min(
      {scheduler_.NextDeadline(), WorkerDeadline(), FailoverDeadline(), tell_fleet_at_});
}

// --- the worker ---

void Replica::HandleLinkEvent(LinkUp event, absl::Time now) {
  if (epoch_ != 0) LoseWorker(absl::UnavailableError("a new lease replaced the old one"), now);
  const WorkerLimits limits = LimitsOf(event.description);
  absl::Status status;
  CountFailed([&] { status = scheduler_.AttachWorker(limits, now); }, now);
  if (!status.ok()) {
    context_.link->DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  epoch_ = event.epoch;
  if (incarnation_ != 0 && incarnation_ != event.description.incarnation()) {
    worker_series_.restarts_total->Increment();
  }
  incarnation_ = event.description.incarnation();
  spdlog::info(
      "worker {} attached: epoch {}, incarnation {:016x}, {} on {}, {} blocks of {} tokens, {} "
      "slots",
      context_.worker, epoch_, incarnation_, event.description.weights_dtype(),
      event.description.device(), limits.num_blocks, limits.block_size_tokens, limits.max_slots);
  CompareBits(event.description, now);
  if (HasPeers()) context_.fleet->SetLease(context_.index, {.bits = *bits_, .limits = limits});
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kResumed)
      .Increment(static_cast<double>(live_.size()));
  SetWorker(WorkerState::kReady, fmt::format("ready: {}", event.description.device()),
            absl::InfiniteFuture());
  MutexLock lock(mutex_);
  status_.description = std::move(event.description);
}

void Replica::CompareBits(const worker::v1::DescribeResponse& description, absl::Time now) {
  const WorkerBits bits = BitsOf(description);
  if (bits_.has_value() && *bits_ != bits) {
    const absl::Status reason = MakeError(
        absl::StatusCode::kAborted,
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
void Replica::CountFailed(Change change, absl::Time now) {
  DeliverEvents(now);
  const size_t num_before = live_.size();
  change();
  DeliverEvents(now);
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kFailed)
      .Increment(static_cast<double>(num_before - live_.size()));
}

void Replica::HandleLinkEvent(LinkResult event, absl::Time now) {
  const worker::v1::StepResult& result = event.result;
  if (epoch_ == 0 || result.epoch() != epoch_) return;  // of a lease that is over
  if (result.incarnation() != incarnation_) {
    return BreakLease(Internal("step result: incarnation: expected {:016x}, got {:016x}",
                               incarnation_, result.incarnation()),
                      now);
  }
  if (in_flight_.empty()) {
    return BreakLease(
        Internal("step result: step_id: got {} with no step in flight", result.step_id()), now);
  }
  StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  last_result_at_ = now;
  const absl::Time start = context_.clock->Now();
  absl::StatusOr<StepOutcome> outcome = DecodeResult(result, step.plan);
  if (!outcome.ok()) return BreakLease(Annotate(outcome.status(), "step result"), now);
  if (!outcome->refusal.ok()) {
    spdlog::warn("step {} was refused: {}", step.plan.step_id, Message(outcome->refusal));
  }
  if (const absl::Status status = scheduler_.Apply(*std::move(outcome), now); !status.ok()) {
    return BreakLease(Annotate(status, "step result"), now);
  }
  if (result.draining() && !worker_draining_) NoteDraining(now);
  const absl::Duration router_time = step.router_time + (context_.clock->Now() - start);
  metrics_.scheduler_step_seconds->Observe(absl::ToDoubleSeconds(router_time));
  metrics_.step_rtt_seconds->Observe(absl::ToDoubleSeconds(now - step.sent_at));
}

void Replica::HandleLinkEvent(LinkDown event, absl::Time now) {
  if (event.epoch != 0) {
    if (event.epoch == epoch_) LoseWorker(event.reason, now);
    return;
  }
  if (epoch_ != 0) return;
  // An attempt to connect failed; why is what clients and operators want to read.
  const bool mismatched = event.reason.code() == absl::StatusCode::kFailedPrecondition;
  const bool ever_attached = lost_at_ != absl::InfinitePast();
  NoteUnusable(event.reason, mismatched      ? WorkerState::kMismatched
                             : ever_attached ? WorkerState::kLost
                                             : WorkerState::kConnecting);
}

void Replica::NoteDraining(absl::Time now) {
  spdlog::info("worker {} drains: epoch {}; nothing new is started on it", context_.worker, epoch_);
  worker_draining_ = true;
  scheduler_.DrainWorker(now);
  SetWorker(WorkerState::kDraining, "the worker is shutting down", absl::InfiniteFuture());
}

void Replica::NoteUnusable(const absl::Status& reason, WorkerState state) {
  lost_reason_ = reason;
  SetWorker(state, Message(reason), lost_at_);
}

void Replica::BreakLease(const absl::Status& reason, absl::Time now) {
  context_.link->DropLease(epoch_, reason);
  LoseWorker(reason, now);
}

void Replica::LoseWorker(const absl::Status& reason, absl::Time now) {
  spdlog::warn("worker {} lost: epoch {}, {} steps in flight, {} requests: {}", context_.worker,
               epoch_, in_flight_.size(), live_.size(), Message(reason));
  epoch_ = 0;
  worker_draining_ = false;
  in_flight_.clear();
  lost_at_ = now;
  lost_reason_ = reason;
  CountFailed([&] { scheduler_.DetachWorker(reason, now); }, now);
  SetWorker(WorkerState::kLost, Message(reason), now);
}

void Replica::ExpireWorker(absl::Time now) {
  scheduler_.ExpireDeadlines(now);
  if (now < WorkerDeadline()) return;
  const std::string what =
      in_flight_.empty() ? "the drained worker did not end its lease"
                         : fmt::format("step {} had no result", in_flight_.front().plan.step_id);
  BreakLease(MakeError(absl::StatusCode::kDeadlineExceeded, "{} after {}", what,
                       absl::FormatDuration(config_.step_timeout)),
             now);
}

void Replica::ExpireWaits(absl::Time now) {
  if (now < FailoverDeadline()) return;
  const std::string wait = absl::FormatDuration(config_.failover_wait);
  const absl::Status reason =
      worker_draining_
          ? Unavailable("the worker is shutting down and no other one came within {}", wait)
          : Unavailable("the worker was lost and none came back within {} that got any further: {}",
                        wait, Message(lost_reason_));
  CountFailed([&] { scheduler_.FailUnserved(now - config_.failover_wait, reason, now); }, now);
}

absl::Time Replica::WorkerDeadline() const {
  if (in_flight_.empty()) {
    return worker_draining_ ? last_result_at_ + config_.step_timeout : absl::InfiniteFuture();
  }
  // Steps run one after the other: the oldest began when the one before it was done.
  return std::max(in_flight_.front().sent_at, last_result_at_) + config_.step_timeout;
}

void Replica::SendSteps(absl::Time now) {
  while (epoch_ != 0) {
    const absl::Time start = context_.clock->Now();
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

// --- requests ---

void Replica::Accept(Submission submission, absl::Time now) {
  absl::Status status;
  if (shutting_down_) {
    status = absl::UnavailableError("the router is shutting down");
  } else if (!HasPeers() || !context_.fleet->AnyOtherOpen(context_.index)) {
    status = CheckWorker();  // else it moves on to the other one if need be
  }
  if (status.ok()) status = scheduler_.Submit(submission.request, now);
  if (status.ok()) {
    worker_series_.requests_total->Increment();
    live_.Add(std::move(submission));
  } else {
    live_.Refuse(std::move(submission), std::move(status));
  }
}

void Replica::Stop(const SequenceStop& stop, absl::Time now) {
  if (live_.Contains(stop.request)) {
    scheduler_.StopSequence(stop.request, stop.sample_index, now);
  } else if (HasPeers()) {
    context_.fleet->Stop(stop);
  }
}

void Replica::Cancel(const Cancellation& cancellation, absl::Time now) {
  if (live_.SetCancelled(cancellation.request, cancellation.cause)) {
    scheduler_.Cancel(cancellation.request, now);
  } else if (HasPeers()) {
    context_.fleet->Cancel(cancellation);
  }
}

void Replica::CancelAll(absl::Time now) {
  shutting_down_ = true;
  for (const RequestKey key : live_.keys()) {
    Cancel({.request = key, .cause = CancelCause::kShutdown}, now);
  }
}

void Replica::DeliverEvents(absl::Time now) {
  // Cancelling makes new events, so: until there are none.
  for (;;) {
    std::vector<SchedulerEvent> events = scheduler_.TakeEvents();
    if (events.empty()) return;
    std::vector<RequestKey> to_cancel;
    live_.Deliver(std::move(events), now, to_cancel);
    for (const RequestKey key : to_cancel) scheduler_.Cancel(key, now);
  }
}

// --- status ---

absl::Status Replica::CheckWorker() const {
  const absl::Time now = context_.clock->Now();
  MutexLock lock(mutex_);
  if (status_.worker_state == WorkerState::kReady ||
      status_.worker_state == WorkerState::kDraining) {
    return absl::OkStatus();
  }
  if (now - status_.lost_at < config_.no_worker_grace) return absl::OkStatus();
  return Unavailable("no worker is attached: {}", status_.worker_text);
}

ReplicaStatus Replica::status() const {
  MutexLock lock(mutex_);
  return status_;
}

WorkerState Replica::worker_state() const {
  MutexLock lock(mutex_);
  return status_.worker_state;
}

void Replica::SetWorker(WorkerState state, std::string text, absl::Time lost_at) {
  worker_series_.SetState(state);
  if (HasPeers()) {
    context_.fleet->SetOpenness(context_.index, state == WorkerState::kReady ? Openness::kOpen
                                                : state == WorkerState::kDraining
                                                    ? Openness::kDraining
                                                    : Openness::kClosed);
  }
  MutexLock lock(mutex_);
  status_.worker_state = state;
  status_.worker_text = std::move(text);
  status_.lost_at = lost_at;
}

void Replica::PublishStats() {
  const SchedulerStats stats = scheduler_.Stats();
  const auto num_live = static_cast<uint32_t>(live_.size());
  const auto num_running = [](uint32_t live, const SchedulerStats& of) {
    return static_cast<double>(live - std::min(live, of.waiting_requests));
  };
  worker_series_.Publish(stats);
  MutexLock lock(mutex_);
  metrics_.Publish(stats, status_.scheduler);
  metrics_.running_requests->Increment(num_running(num_live, stats) -
                                       num_running(status_.live_requests, status_.scheduler));
  status_.scheduler = stats;
  status_.live_requests = num_live;
}

void Replica::CheckIntegrityWhenIdle(absl::Time now) {
  const bool idle = scheduler_.Idle();
  if (idle && !was_idle_ && now - integrity_checked_at_ >= kIntegrityCheckInterval) {
    integrity_checked_at_ = now;
    const absl::Status status = scheduler_.CheckIntegrity();
    LOCKSTEP_CHECK(status.ok(), "the scheduler's books don't add up: {}", Message(status));
  }
  was_idle_ = idle;
}

}  // namespace lockstep::router
