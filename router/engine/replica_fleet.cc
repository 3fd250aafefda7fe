// The replica's side of a fleet: requests that come from, and go to, other replicas.
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/status.h"
#include "router/engine/replica.h"

namespace lockstep::router {
namespace {

// A reader of the directory was in the way, or there was much to tell.
constexpr absl::Duration kTellAgainAfter = absl::Milliseconds(1);
// Then a request that no replica can take on is refused: their workers change faster than it moves.
constexpr uint32_t kMaxHops = 4;
// Other replicas, and calls, come between.
constexpr size_t kMaxMovesPerTurn = 64;

}  // namespace

bool Replica::OthersTake(const Request& request) const {
  return HasPeers() &&
         context_.fleet->AnyOtherTakes(context_.index, PlacementQuery::ForNew(request));
}

PlacementQuery Replica::QueryOf(const StrandedRequest& stranded) const {
  return {.request = stranded.request.get(),
          .known_tokens = stranded.known_tokens,
          .bits = stranded.has_output ? bits_ : std::nullopt,
          .suspect = stranded.suspect,
          .max_cached_tokens = stranded.max_cached_tokens};
}

void Replica::TakeOver(Handover handover) {
  Delivery& delivery = handover.delivery;
  if (shutting_down_) {
    return live_.Refuse(std::move(delivery.submission),
                        absl::UnavailableError("the router is shutting down"));
  }
  // The worker may have been replaced while the request was on its way.
  const PlacementQuery query = {.request = delivery.submission.request.get(),
                                .known_tokens = delivery.submission.request->prompt_tokens,
                                .bits = handover.bits};
  const bool other_bits = handover.bits.has_value() && handover.bits != bits_;
  if (other_bits || (epoch_ != 0 && !FitsWorker(query, limits_))) {
    if (PassOn(handover)) return;
    // What is too large for all fails below, as one that was here.
    if (other_bits) {
      RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kFailed).Increment();
      return live_.Refuse(
          std::move(delivery.submission),
          absl::UnavailableError("its worker was lost and no other one computes the same bits"));
    }
  }
  live_.Adopt(std::move(delivery));
  scheduler_.Adopt(std::move(handover.suspended));
  worker_series_.requests_total->Increment();
  RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kResumed).Increment();
}

bool Replica::PassOn(Handover& handover) {
  if (handover.num_hops >= kMaxHops) return false;
  const Request& request = *handover.delivery.submission.request;
  const PlacementQuery query = {
      .request = &request, .known_tokens = request.prompt_tokens, .bits = handover.bits};
  const std::optional<uint32_t> to = context_.fleet->FindOtherOrRoom(context_.index, query);
  if (!to.has_value()) return false;
  ++handover.num_hops;
  return context_.fleet->HandOver(*to, handover);
}

void Replica::MoveStranded(Instant now) {
  retry_at_ = Instant::InfiniteFuture();
  const bool may_start = epoch_ != 0 && !worker_draining_;
  if (may_start || !HasPeers() || shutting_down_ || live_.empty()) return;
  if (!context_.fleet->AnyOtherOpen(context_.index)) return;
  // What is known of a request goes to its client before the request goes anywhere.
  DeliverEvents(now);
  size_t num_moved = 0;
  for (const StrandedRequest& stranded : scheduler_.Stranded()) {
    if (num_moved == kMaxMovesPerTurn) {
      retry_at_ = now;
      break;
    }
    const std::optional<uint32_t> to = context_.fleet->FindOther(context_.index, QueryOf(stranded));
    if (!to.has_value()) continue;
    if (!context_.fleet->TakeRetry(now)) {
      retry_at_ = now + RetryBudget::kAskAgainAfter;
      break;
    }
    if (MoveTo(*to, stranded)) ++num_moved;
  }
  if (num_moved == 0) return;
  spdlog::info("worker {}: {} of its requests go to others, {} stay", context_.worker, num_moved,
               live_.size());
}

void Replica::MoveUnfit(const WorkerLimits& limits, const WorkerBits& bits, Instant now) {
  if (!HasPeers() || shutting_down_ || live_.empty()) return;
  DeliverEvents(now);
  for (const StrandedRequest& stranded : scheduler_.Stranded()) {
    const PlacementQuery query = QueryOf(stranded);
    const bool same_bits = !query.bits.has_value() || *query.bits == bits;
    if (same_bits && FitsWorker(query, limits)) continue;
    const std::optional<uint32_t> to = context_.fleet->FindOtherOrRoom(context_.index, query);
    if (to.has_value()) MoveTo(*to, stranded);
  }
}

bool Replica::MoveTo(uint32_t to, const StrandedRequest& stranded) {
  const RequestKey key = stranded.request->key;
  Handover handover = {.suspended = scheduler_.Release(key),
                       .delivery = live_.Release(key),
                       .bits = stranded.has_output ? bits_ : std::nullopt};
  if (context_.fleet->HandOver(to, handover)) return true;
  live_.Adopt(std::move(handover.delivery));
  scheduler_.Adopt(std::move(handover.suspended));
  return false;
}

// --- the end of a replica ---

void Replica::StartRetirement(Instant now) {
  retiring_ = true;
  constexpr char kText[] = "its address is gone";
  if (epoch_ == 0) return NoteUnusable(absl::UnavailableError(kText), WorkerState::kLost);
  if (!worker_draining_) NoteDraining(kText, now);
}

void Replica::EndRetirement(Instant now) {
  if (!retiring_ || !live_.empty() || epoch_ == 0) return;
  BreakLease(absl::CancelledError("its address is gone and nothing runs on it"),
             CircuitBreaker::Loss::kIdle, now);
}

// --- what others know ---

void Replica::TellLoad() {
  const SchedulerStats stats = scheduler_.Stats();
  context_.fleet->SetLoad(context_.index,
                          {.queued_tokens = stats.waiting_tokens + stats.prefill_tokens,
                           .num_sequences = stats.waiting_sequences + stats.running_sequences,
                           .available_blocks = stats.free_blocks + stats.cached_blocks,
                           .free_blocks = stats.free_blocks});
}

void Replica::TellFleet(const Arrivals& arrivals, Instant now) {
  const std::vector<RequestKey> ended = live_.TakeEnded();
  if (!HasPeers()) return;
  Fleet& fleet = *context_.fleet;
  TellLoad();
  fleet.NoteTaken(context_.index, arrivals.num_requests, arrivals.num_prompt_tokens);
  for (const RequestKey key : ended) fleet.Forget(key);
  const bool told = fleet.TellPrefixes(context_.index, scheduler_.prefix_changes());
  tell_fleet_at_ = told ? Instant::InfiniteFuture() : now + kTellAgainAfter;
  if (!retiring_ || !told || !live_.empty() || epoch_ != 0) return;
  MutexLock lock(mutex_);
  status_.gone = true;
}

}  // namespace lockstep::router
