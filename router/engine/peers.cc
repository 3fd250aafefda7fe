#include "router/engine/peers.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"

namespace lockstep::router {
namespace {

// A reader of the directory was in the way, or there was much to tell.
constexpr absl::Duration kTellAgainAfter = absl::Milliseconds(1);
// After so many replicas that could not take it on, a request is refused: workers change faster
// than it moves.
constexpr uint32_t kMaxHops = 4;
// Other replicas, and calls, come between.
constexpr size_t kMaxMovesPerTurn = 64;

}  // namespace

bool Peers::Take(const Request& request) const {
  return my_.fleet != nullptr &&
         my_.fleet->AnyOtherTakes(my_.index, PlacementQuery::ForNew(request));
}

void Peers::Stop(const SequenceStop& stop) const {
  if (my_.fleet != nullptr) my_.fleet->Stop(stop);
}

void Peers::Cancel(const Cancellation& cancellation) const {
  if (my_.fleet != nullptr) my_.fleet->Cancel(cancellation);
}

PlacementQuery Peers::QueryOf(const StrandedRequest& stranded) const {
  return {.request = stranded.request.get(),
          .known_tokens = stranded.known_tokens,
          .bits = stranded.has_output ? my_.worker.bits() : std::nullopt,
          .suspect = stranded.suspect,
          .max_cached_tokens = stranded.max_cached_tokens};
}

void Peers::TakeOver(Handover handover, Instant now) {
  Delivery& delivery = handover.delivery;
  // The worker may have been replaced while the request was on its way.
  const PlacementQuery query = {.request = delivery.submission.request.get(),
                                .known_tokens = delivery.submission.request->prompt_tokens,
                                .bits = handover.bits};
  const ReplicaWorker& worker = my_.worker;
  const bool other_bits = handover.bits.has_value() && handover.bits != worker.bits();
  if (other_bits || (worker.attached() && !FitsWorker(query, worker.limits()))) {
    if (PassOn(handover)) return;
    // What is too large for every worker fails below, like a request that was here before.
    if (other_bits) {
      RouterMetrics::At(my_.metrics.requests_retried_total, RetryOutcome::kFailed).Increment();
      return my_.live.Refuse(
          std::move(delivery.submission),
          absl::UnavailableError("its worker was lost and no other one computes the same bits"));
    }
  }
  const RequestKey key = delivery.submission.request->key;
  if (worker.attached() && std::exchange(delivery.lost_worker, false)) {
    RouterMetrics::At(my_.metrics.requests_retried_total, RetryOutcome::kResumed).Increment();
  }
  my_.live.Adopt(std::move(delivery));
  my_.live.NoteMoved(key, now);
  my_.scheduler.Adopt(std::move(handover.suspended));
  my_.series.requests_total->Increment();
}

bool Peers::PassOn(Handover& handover) {
  if (my_.fleet == nullptr || handover.num_hops >= kMaxHops) return false;
  const Request& request = *handover.delivery.submission.request;
  const PlacementQuery query = {
      .request = &request, .known_tokens = request.prompt_tokens, .bits = handover.bits};
  const std::optional<uint32_t> to = my_.fleet->FindOtherOrRoom(my_.index, query);
  if (!to.has_value()) return false;
  ++handover.num_hops;
  return my_.fleet->HandOver(*to, handover);
}

void Peers::MoveStranded(Instant now) {
  retry_at_ = Instant::InfiniteFuture();
  if (my_.fleet == nullptr || closed_ || my_.worker.takes_work() || my_.live.empty()) return;
  if (!my_.fleet->AnyOtherReady(my_.index)) return;
  // What is known of a request goes to its client before the request goes anywhere.
  my_.live.Deliver(my_.scheduler, now);
  size_t num_moved = 0;
  for (const StrandedRequest& stranded : my_.scheduler.Stranded()) {
    if (num_moved == kMaxMovesPerTurn) {
      retry_at_ = now;
      break;
    }
    const std::optional<uint32_t> to = my_.fleet->FindOther(my_.index, QueryOf(stranded));
    if (!to.has_value()) continue;
    if (!my_.fleet->TakeRetry(now)) {
      retry_at_ = now + RetryBudget::kAskAgainAfter;
      break;
    }
    if (MoveTo(*to, stranded)) ++num_moved;
  }
  if (num_moved == 0) return;
  spdlog::info("worker {}: {} of its requests go to others, {} stay", my_.worker_address, num_moved,
               my_.live.size());
}

void Peers::MoveUnfit(const WorkerLimits& limits, const WorkerBits& bits, Instant now) {
  if (my_.fleet == nullptr || closed_ || my_.live.empty()) return;
  my_.live.Deliver(my_.scheduler, now);
  for (const StrandedRequest& stranded : my_.scheduler.Stranded()) {
    const PlacementQuery query = QueryOf(stranded);
    const bool same_bits = !query.bits.has_value() || *query.bits == bits;
    if (same_bits && FitsWorker(query, limits)) continue;
    const std::optional<uint32_t> to = my_.fleet->FindOtherOrRoom(my_.index, query);
    if (to.has_value()) MoveTo(*to, stranded);
  }
}

bool Peers::MoveTo(uint32_t to, const StrandedRequest& stranded) {
  const RequestKey key = stranded.request->key;
  Handover handover = {.suspended = my_.scheduler.Release(key),
                       .delivery = my_.live.Release(key),
                       .bits = stranded.has_output ? my_.worker.bits() : std::nullopt};
  // Its worker may be there still, and drain.
  if (handover.delivery.started) handover.delivery.lost_worker = true;
  if (my_.fleet->HandOver(to, handover)) return true;
  my_.live.Adopt(std::move(handover.delivery));
  my_.scheduler.Adopt(std::move(handover.suspended));
  return false;
}

// --- what the others know ---

void Peers::TellLease() const {
  if (my_.fleet == nullptr) return;
  my_.fleet->SetLease(my_.index, {.bits = *my_.worker.bits(), .limits = my_.worker.limits()});
  TellLoad();
}

void Peers::TellReadiness(WorkerState state) const {
  if (my_.fleet == nullptr) return;
  Readiness readiness = Readiness::kAway;
  if (state == WorkerState::kStandby) readiness = Readiness::kStandby;
  if (state == WorkerState::kDraining) readiness = Readiness::kDraining;
  if (state == WorkerState::kReady) {
    const bool on_trial = my_.worker.circuit() == CircuitState::kHalfOpen;
    readiness = on_trial ? Readiness::kTrial : Readiness::kReady;
  }
  my_.fleet->SetReadiness(my_.index, readiness);
}

void Peers::TellLoad() const {
  const SchedulerStats stats = my_.scheduler.Stats();
  my_.fleet->SetLoad(my_.index, {.queued_tokens = stats.waiting_tokens + stats.prefill_tokens,
                                 .num_sequences = stats.waiting_sequences + stats.running_sequences,
                                 .available_blocks = stats.free_blocks + stats.cached_blocks,
                                 .free_blocks = stats.free_blocks});
}

bool Peers::Tell(uint32_t num_new_requests, uint64_t num_new_tokens, Instant now) {
  const std::vector<RequestKey> ended = my_.live.TakeEnded();
  if (my_.fleet == nullptr) return true;
  TellLoad();
  my_.fleet->NoteTaken(my_.index, num_new_requests, num_new_tokens);
  for (const RequestKey key : ended) my_.fleet->Forget(key);
  const bool told = my_.fleet->TellPrefixes(my_.index, my_.scheduler.prefix_changes());
  tell_at_ = told ? Instant::InfiniteFuture() : now + kTellAgainAfter;
  return told;
}

}  // namespace lockstep::router
