#include "router/engine/replica_life.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "common/status.h"
#include "router/workers/worker_text.h"

namespace lockstep::router {
namespace {

constexpr char kOwnerIsBack[] = "the router that the worker belongs to is back";

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

ReplicaLife::ReplicaLife(ReplicaState& state, Peers& peers)
    : state_(state), peers_(peers), metrics_(*state.place.metrics) {
  state_.series.SetState(WorkerState::kConnecting);
  state_.series.SetCircuit(state_.worker.circuit());
  metrics_.At(metrics_.shard_workers, state_.place.owner).Increment();
}

ReplicaLife::~ReplicaLife() {
  if (state_.worker.attached()) {
    metrics_.At(metrics_.shard_leases, state_.place.owner).Decrement();
  }
  metrics_.At(metrics_.shard_workers, state_.place.owner).Decrement();
}

// --- attach ---

void ReplicaLife::OnUp(LinkUp event, Instant now) {
  ReplicaWorker& worker = state_.worker;
  StepLink& link = *state_.place.link;
  if (worker.attached()) {
    Lose(absl::UnavailableError("a new lease replaced the old one"), worker.LossNow(), now);
  }
  if (leaving_) return link.DropLease(event.epoch, absl::CancelledError("its address is gone"));
  const WorkerLimits limits = LimitsOf(event.description);
  const WorkerBits bits = BitsOf(event.description);
  if (const absl::Status status = JoinAgreement(bits); !status.ok()) {
    spdlog::warn("worker {} is not used: {}", state_.place.worker, Message(status));
    link.DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  peers_.MoveUnfit(limits, bits, now);
  absl::Status status;
  CountFailed([&] { status = state_.scheduler.AttachWorker(limits, now); }, now);
  if (!status.ok()) {
    membership_.reset();
    link.DropLease(event.epoch, status);
    return NoteUnusable(status, WorkerState::kMismatched);
  }
  const WorkerBits bits_before = worker.bits().value_or(bits);
  if (worker.Begin(event.epoch, event.description)) state_.series.restarts_total->Increment();
  NoteAttached(event.description, limits);
  if (bits != bits_before) FailOtherBits(bits_before, now);
  peers_.TellLease();
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kResumed)
      .Increment(state_.live.TakeResumed());
  SetWorker(WorkerState::kReady,
            fmt::format("ready: {}, weights in {}{}, KV cache in {}",
                        QuoteWorker(event.description.device()),
                        QuoteWorker(event.description.weights_dtype()),
                        SizeText(event.description.weights_bytes()),
                        QuoteWorker(event.description.kv_groups(0).dtype())),
            Instant::InfiniteFuture());
  state_.board.SetDescription(std::move(event.description));
}

absl::Status ReplicaLife::JoinAgreement(const WorkerBits& bits) {
  if (state_.place.agreement == nullptr) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(membership_, state_.place.agreement->Join(bits));
  return absl::OkStatus();
}

void ReplicaLife::NoteAttached(const worker::v1::DescribeResponse& description,
                               const WorkerLimits& limits) {
  spdlog::info(
      "worker {} attached: epoch {}, incarnation {:016x}, weights {:016x} {}, numerics {:016x} on "
      "{}, ranks {}, {} blocks of {} tokens in {}, {} slots",
      state_.place.worker, state_.worker.epoch(), state_.worker.incarnation(),
      description.weights_fingerprint(), QuoteWorker(description.weights_dtype()),
      description.numerics_id(), QuoteWorker(description.device()),
      std::max(description.tensor_parallel(), 1u), BlocksText(limits.kv_groups),
      limits.block_size_tokens(), QuoteWorker(description.kv_groups(0).dtype()), limits.max_slots);
  metrics_.kv_block_tokens->Set(limits.block_size_tokens());
  metrics_.At(metrics_.shard_leases, state_.place.owner).Increment();
  if (state_.place.owner == WorkerOwner::kOther) metrics_.shard_takeovers_total->Increment();
}

void ReplicaLife::FailOtherBits(const WorkerBits& before, Instant now) {
  const WorkerBits& bits = *state_.worker.bits();
  const absl::Status reason = Unavailable(
      "the worker that came back computes other bits: numerics id {:016x} and weights {:016x} "
      "instead of {:016x} and {:016x}; what was begun before cannot be continued",
      bits.numerics_id, bits.weights_fingerprint, before.numerics_id, before.weights_fingerprint);
  CountFailed(
      [&] {
        const uint32_t num_failed = state_.scheduler.FailWithOutput(reason, now);
        spdlog::warn("{} requests fail: {}", num_failed, Message(reason));
      },
      now);
}

void ReplicaLife::CountFailed(absl::FunctionRef<void()> change, Instant now) {
  state_.live.Deliver(state_.scheduler, now);
  const size_t num_before = state_.live.size();
  change();
  state_.live.Deliver(state_.scheduler, now);
  metrics_.At(metrics_.requests_retried_total, RetryOutcome::kFailed)
      .Increment(static_cast<double>(num_before - state_.live.size()));
}

// --- lose ---

void ReplicaLife::OnDown(LinkDown event, Instant now) {
  ReplicaWorker& worker = state_.worker;
  if (event.epoch != 0) {
    if (event.epoch == worker.epoch()) Lose(event.reason, worker.LossNow(), now);
    return;
  }
  if (worker.attached()) return;
  // An attempt to connect failed. Clients and operators want to read why.
  const bool mismatched = event.reason.code() == absl::StatusCode::kFailedPrecondition;
  const bool ever_attached = worker.lost_at() != Instant::InfinitePast();
  NoteUnusable(event.reason, mismatched      ? WorkerState::kMismatched
                             : ever_attached ? WorkerState::kLost
                                             : WorkerState::kConnecting);
}

void ReplicaLife::OnStandby(LinkStandby event) {
  if (state_.worker.attached() || leaving_) return;
  if (event.served) state_.worker.ForgetFailures();
  NoteUnusable(absl::UnavailableError(event.text), WorkerState::kStandby);
}

void ReplicaLife::Drain(WorkerState worker_state, std::string text, Instant now) {
  spdlog::info("worker {} drains: epoch {}; nothing new is started on it: {}", state_.place.worker,
               state_.worker.epoch(), text);
  state_.worker.Drain();
  membership_.reset();
  state_.scheduler.DrainWorker(now);
  SetWorker(worker_state, std::move(text), Instant::InfiniteFuture());
}

void ReplicaLife::GiveBack(Instant now) { Drain(WorkerState::kStandby, kOwnerIsBack, now); }

void ReplicaLife::NoteUnusable(const absl::Status& reason, WorkerState worker_state) {
  state_.worker.set_lost_reason(reason);
  SetWorker(worker_state, Message(reason), state_.worker.lost_at());
}

void ReplicaLife::Break(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  state_.place.link->DropLease(state_.worker.epoch(), reason);
  Lose(reason, loss, now);
}

void ReplicaLife::Lose(const absl::Status& reason, CircuitBreaker::Loss loss, Instant now) {
  ReplicaWorker& worker = state_.worker;
  // If the worker went back to its owner, it will not return soon, so no request waits for it.
  const bool given_back = state_.place.owner == WorkerOwner::kOther &&
                          state_.board.worker_state() == WorkerState::kStandby;
  spdlog::log(given_back ? spdlog::level::info : spdlog::level::warn,
              "worker {} {}: epoch {}, {} steps in flight, {} requests: {}", state_.place.worker,
              given_back ? "given back" : "lost", worker.epoch(), worker.num_in_flight(),
              state_.live.size(), Message(reason));
  worker.End(reason, loss, now);
  metrics_.At(metrics_.shard_leases, state_.place.owner).Decrement();
  membership_.reset();
  CountFailed(
      [&] {
        state_.live.NoteWorkerLost(now);
        state_.scheduler.DetachWorker(reason, now);
      },
      now);
  if (given_back) {
    SetWorker(WorkerState::kStandby, kOwnerIsBack, now);
  } else {
    SetWorker(WorkerState::kLost, Message(reason), now);
  }
}

// --- time ---

void ReplicaLife::ExpireWorker(Instant now) {
  const absl::Duration timeout = state_.config.step_timeout;
  if (now < state_.worker.Deadline(timeout)) return;
  const bool hangs = state_.worker.num_in_flight() > 0;
  Break(state_.worker.Overdue(timeout),
        hangs ? CircuitBreaker::Loss::kHang : CircuitBreaker::Loss::kIdle, now);
}

void ReplicaLife::ExpireWaits(Instant now) {
  if (now < FailoverDeadline()) return;
  const absl::Duration wait = state_.config.failover_wait;
  const std::string wait_text = absl::FormatDuration(wait);
  absl::Status reason;
  if (state_.board.worker_state() == WorkerState::kStandby) {
    reason =
        Unavailable("the worker went to another router and no other one came within {}", wait_text);
  } else if (state_.worker.draining()) {
    reason = Unavailable("the worker is shutting down and no other one came within {}", wait_text);
  } else {
    reason =
        Unavailable("the worker was lost and none came back within {} that got any further: {}",
                    wait_text, Message(state_.worker.lost_reason()));
  }
  CountFailed([&] { state_.scheduler.FailUnserved(now - wait, reason, now); }, now);
}

Instant ReplicaLife::FailoverDeadline() const {
  return state_.scheduler.UnservedSince() + state_.config.failover_wait;
}

Instant ReplicaLife::NextDeadline() const {
  return std::min(state_.worker.Deadline(state_.config.step_timeout), FailoverDeadline());
}

// --- leave ---

void ReplicaLife::StartLeaving(Instant now) {
  leaving_ = true;
  constexpr char kText[] = "its address is gone";
  if (!state_.worker.attached()) {
    return NoteUnusable(absl::UnavailableError(kText), WorkerState::kLost);
  }
  if (!state_.worker.draining()) Drain(WorkerState::kDraining, kText, now);
}

void ReplicaLife::FinishLeaving(Instant now) {
  if (!leaving_ || !state_.live.empty() || !state_.worker.attached()) return;
  Break(absl::CancelledError("its address is gone and nothing runs on it"),
        CircuitBreaker::Loss::kIdle, now);
}

// --- status ---

void ReplicaLife::TellCircuit(WorkerState worker_state) {
  state_.series.SetCircuit(state_.worker.circuit());
  peers_.TellReadiness(worker_state);
}

void ReplicaLife::SetWorker(WorkerState worker_state, std::string text, Instant lost_at) {
  worker_changed_ = true;
  state_.series.SetState(worker_state);
  TellCircuit(worker_state);
  state_.board.SetWorker(worker_state, std::move(text), lost_at);
}

}  // namespace lockstep::router
