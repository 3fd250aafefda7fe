#include "router/engine/peers.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"

namespace lockstep::router {
namespace {

// For prefixes that are left, because a reader held the directory or there were too many.
constexpr absl::Duration kTellAgainAfter = absl::Milliseconds(1);
// A request is refused after so many replicas could not continue it, because workers then change
// faster than it moves.
constexpr uint32_t kMaxHops = 4;
// So that other replicas and calls get their turn in between.
constexpr size_t kMaxMovesPerTurn = 64;

}  // namespace

bool Peers::Take(const Request& request) const {
  return state_.place.fleet != nullptr &&
         state_.place.fleet->AnyOtherTakes(state_.place.index, PlacementQuery::ForNew(request));
}

void Peers::Stop(const SequenceStop& stop) const {
  if (state_.place.fleet != nullptr) state_.place.fleet->Stop(stop);
}

void Peers::Cancel(const Cancellation& cancellation) const {
  if (state_.place.fleet != nullptr) state_.place.fleet->Cancel(cancellation);
}

PlacementQuery Peers::QueryOf(const StrandedRequest& stranded) const {
  return {.request = stranded.request.get(),
          .known_tokens = stranded.known_tokens,
          .bits = stranded.has_output ? state_.worker.bits() : std::nullopt,
          .suspect = stranded.suspect,
          .max_cached_tokens = stranded.max_cached_tokens};
}

void Peers::TakeOver(Handover handover, Instant now) {
  Delivery& delivery = handover.delivery;
  // The worker may have been replaced while the request was under way.
  const PlacementQuery query = {.request = delivery.submission.request.get(),
                                .known_tokens = delivery.submission.request->prompt_tokens,
                                .bits = handover.bits};
  const ReplicaWorker& worker = state_.worker;
  const bool other_bits = handover.bits.has_value() && handover.bits != worker.bits();
  if (other_bits || (worker.attached() && !FitsWorker(query, worker.limits()))) {
    if (PassOn(handover)) return;
    // A request that is too large for every worker fails below, like a request of this replica.
    if (other_bits) {
      RouterMetrics::At(state_.place.metrics->requests_retried_total, RetryOutcome::kFailed)
          .Increment();
      return state_.live.Refuse(
          std::move(delivery.submission),
          absl::UnavailableError("its worker was lost and no other one computes the same bits"));
    }
  }
  const RequestKey key = delivery.submission.request->key;
  if (worker.attached() && std::exchange(delivery.lost_worker, false)) {
    RouterMetrics::At(state_.place.metrics->requests_retried_total, RetryOutcome::kResumed)
        .Increment();
  }
  state_.live.Adopt(std::move(delivery));
  state_.live.NoteMoved(key, now);
  state_.scheduler.Adopt(std::move(handover.suspended));
  state_.series.requests_total->Increment();
}

bool Peers::PassOn(Handover& handover) {
  if (state_.place.fleet == nullptr || handover.num_hops >= kMaxHops) return false;
  const Request& request = *handover.delivery.submission.request;
  const PlacementQuery query = {
      .request = &request, .known_tokens = request.prompt_tokens, .bits = handover.bits};
  const std::optional<uint32_t> to = state_.place.fleet->FindOtherOrRoom(state_.place.index, query);
  if (!to.has_value()) return false;
  ++handover.num_hops;
  return state_.place.fleet->HandOver(*to, handover);
}

void Peers::MoveStranded(Instant now) {
  retry_at_ = Instant::InfiniteFuture();
  if (state_.place.fleet == nullptr || closed_ || state_.worker.takes_work() || state_.live.empty())
    return;
  if (!state_.place.fleet->AnyOtherReady(state_.place.index)) return;
  // A client gets everything that is known of its request before the request moves.
  state_.live.Deliver(state_.scheduler, now);
  size_t num_moved = 0;
  for (const StrandedRequest& stranded : state_.scheduler.Stranded()) {
    if (num_moved == kMaxMovesPerTurn) {
      retry_at_ = now;
      break;
    }
    const std::optional<uint32_t> to =
        state_.place.fleet->FindOther(state_.place.index, QueryOf(stranded));
    if (!to.has_value()) continue;
    if (!state_.place.fleet->TakeRetry(now)) {
      retry_at_ = now + RetryBudget::kAskAgainAfter;
      break;
    }
    if (MoveTo(*to, stranded)) ++num_moved;
  }
  if (num_moved == 0) return;
  spdlog::info("worker {}: {} of its requests go to others, {} stay", state_.place.worker,
               num_moved, state_.live.size());
}

void Peers::MoveUnfit(const WorkerLimits& limits, const WorkerBits& bits, Instant now) {
  if (state_.place.fleet == nullptr || closed_ || state_.live.empty()) return;
  state_.live.Deliver(state_.scheduler, now);
  for (const StrandedRequest& stranded : state_.scheduler.Stranded()) {
    const PlacementQuery query = QueryOf(stranded);
    const bool same_bits = !query.bits.has_value() || *query.bits == bits;
    if (same_bits && FitsWorker(query, limits)) continue;
    const std::optional<uint32_t> to =
        state_.place.fleet->FindOtherOrRoom(state_.place.index, query);
    if (to.has_value()) MoveTo(*to, stranded);
  }
}

bool Peers::MoveTo(uint32_t to, const StrandedRequest& stranded) {
  const RequestKey key = stranded.request->key;
  Handover handover = {.suspended = state_.scheduler.Release(key),
                       .delivery = state_.live.Release(key),
                       .bits = stranded.has_output ? state_.worker.bits() : std::nullopt};
  // A started request counts as moved from a lost worker. That holds too if the worker is still
  // attached and drains.
  if (handover.delivery.started) handover.delivery.lost_worker = true;
  if (state_.place.fleet->HandOver(to, handover)) return true;
  state_.live.Adopt(std::move(handover.delivery));
  state_.scheduler.Adopt(std::move(handover.suspended));
  return false;
}

// --- reports to the others ---

void Peers::TellLease() const {
  if (state_.place.fleet == nullptr) return;
  state_.place.fleet->SetLease(state_.place.index,
                               {.bits = *state_.worker.bits(), .limits = state_.worker.limits()});
  TellLoad();
}

void Peers::TellReadiness(WorkerState worker_state) const {
  if (state_.place.fleet == nullptr) return;
  Readiness readiness = Readiness::kAway;
  if (worker_state == WorkerState::kStandby) readiness = Readiness::kStandby;
  if (worker_state == WorkerState::kDraining) readiness = Readiness::kDraining;
  if (worker_state == WorkerState::kReady) {
    const bool on_trial = state_.worker.circuit() == CircuitState::kHalfOpen;
    readiness = on_trial ? Readiness::kTrial : Readiness::kReady;
  }
  state_.place.fleet->SetReadiness(state_.place.index, readiness);
}

void Peers::TellLoad() const {
  const SchedulerStats stats = state_.scheduler.Stats();
  state_.place.fleet->SetLoad(state_.place.index,
                              {.queued_tokens = stats.waiting_tokens + stats.prefill_tokens,
                               .num_sequences = stats.waiting_sequences + stats.running_sequences,
                               .available_blocks = stats.free_blocks + stats.cached_blocks,
                               .free_blocks = stats.free_blocks});
}

bool Peers::Tell(uint32_t num_new_requests, uint64_t num_new_tokens, Instant now) {
  const std::vector<RequestKey> ended = state_.live.TakeEnded();
  if (state_.place.fleet == nullptr) return true;
  TellLoad();
  state_.place.fleet->NoteTaken(state_.place.index, num_new_requests, num_new_tokens);
  for (const RequestKey key : ended) state_.place.fleet->Forget(key);
  const bool told =
      state_.place.fleet->TellPrefixes(state_.place.index, state_.scheduler.prefix_changes());
  tell_at_ = told ? Instant::InfiniteFuture() : now + kTellAgainAfter;
  return told;
}

}  // namespace lockstep::router
