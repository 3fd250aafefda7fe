// The replica's side of a fleet: requests that come from, and go to, other replicas.
#include <spdlog/spdlog.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/status.h"
#include "router/engine/replica.h"

namespace lockstep::router {
namespace {

// A reader of the directory was in the way, or there was much to tell.
constexpr absl::Duration kTellAgainAfter = absl::Milliseconds(1);

}  // namespace

void Replica::TakeOver(Handover handover) {
  Delivery& delivery = handover.delivery;
  if (shutting_down_) {
    return live_.Refuse(std::move(delivery.submission),
                        absl::UnavailableError("the router is shutting down"));
  }
  // The worker may have been replaced while the request was on its way.
  if (handover.bits.has_value() && handover.bits != bits_) {
    RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kFailed).Increment();
    return live_.Refuse(
        std::move(delivery.submission),
        absl::AbortedError("its worker was lost and no other one computes the same bits"));
  }
  live_.Adopt(std::move(delivery));
  scheduler_.Adopt(std::move(handover.suspended));
  worker_series_.requests_total->Increment();
  RouterMetrics::At(metrics_.requests_retried_total, RetryOutcome::kResumed).Increment();
}

void Replica::MoveStranded(absl::Time now) {
  const bool may_start = epoch_ != 0 && !worker_draining_;
  if (may_start || !HasPeers() || shutting_down_ || live_.empty()) return;
  if (!context_.fleet->AnyOtherOpen(context_.index)) return;
  // What is known of a request goes to its client before the request goes anywhere.
  DeliverEvents(now);
  size_t num_moved = 0;
  for (const StrandedRequest& stranded : scheduler_.Stranded()) {
    const PlacementQuery query = {.request = stranded.request.get(),
                                  .known_tokens = stranded.known_tokens,
                                  .bits = stranded.has_output ? bits_ : std::nullopt,
                                  .suspect = stranded.suspect};
    const std::optional<uint32_t> to = context_.fleet->FindOther(context_.index, query);
    if (to.has_value() && MoveTo(*to, stranded)) ++num_moved;
  }
  if (num_moved == 0) return;
  spdlog::info("worker {}: {} of its requests go to others, {} stay", context_.worker, num_moved,
               live_.size());
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

void Replica::TellFleet(const Arrivals& arrivals, absl::Time now) {
  const std::vector<RequestKey> ended = live_.TakeEnded();
  if (!HasPeers()) return;
  Fleet& fleet = *context_.fleet;
  const SchedulerStats stats = scheduler_.Stats();
  fleet.SetLoad(context_.index, {.queued_tokens = stats.waiting_tokens,
                                 .num_sequences = stats.waiting_sequences + stats.running_sequences,
                                 .available_blocks = stats.free_blocks + stats.cached_blocks,
                                 .free_blocks = stats.free_blocks});
  fleet.NoteTaken(context_.index, arrivals.num_requests, arrivals.num_prompt_tokens);
  for (const RequestKey key : ended) fleet.Forget(key);
  const bool told = fleet.TellPrefixes(context_.index, scheduler_.prefix_changes());
  tell_fleet_at_ = told ? absl::InfiniteFuture() : now + kTellAgainAfter;
}

}  // namespace lockstep::router
