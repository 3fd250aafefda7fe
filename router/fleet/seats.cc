#include "router/fleet/seats.h"

#include <algorithm>

#include "common/check.h"

namespace lockstep::router {

PlacementQuery PlacementQuery::ForNew(const Request& request) {
  PlacementQuery query = {.request = &request, .known_tokens = request.prompt_tokens};
  // If prompt log-probabilities are wanted, the prompt is computed.
  if (request.sampling.num_prompt_logprobs >= 0) query.max_cached_tokens = 0;
  return query;
}

bool FitsWorker(const PlacementQuery& query, const WorkerLimits& limits) {
  const Request& request = *query.request;
  return request.max_total_tokens() <= limits.max_context_tokens &&
         std::max(request.prompt_tokens.size(), query.known_tokens.size()) <=
             limits.max_cached_tokens() &&
         (!request.constraint || request.constraint->engine == limits.constraint_engine);
}

Seats::Seats(uint32_t num_taken, uint32_t num_seats) : size_(num_taken) {
  LOCKSTEP_CHECK(num_seats > 0, "a fleet needs a seat");
  for (uint32_t i = 0; i < num_seats; ++i) {
    seats_.push_back(std::make_unique<Seat>());
    if (i < num_taken) seats_.back()->occupancy = Occupancy::kTaken;
  }
}

// --- who is there ---

std::optional<uint32_t> Seats::Take() {
  for (uint32_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = *seats_[i];
    if (seat.occupancy.load() != Occupancy::kVacant) continue;
    seat.inbox.Take();  // what the previous replica in this seat left unread
    seat.readiness.store(Readiness::kAway);
    seat.closed_order.store(0);
    seat.num_underway.store(0);
    seat.underway_tokens.store(0);
    SetLoad(i, {});
    {
      MutexLock lock(seat.mutex);
      seat.lease.reset();
    }
    seat.occupancy.store(Occupancy::kTaken);
    size_.store(std::max(size_.load(), i + 1));
    return i;
  }
  return std::nullopt;
}

void Seats::Dismiss(uint32_t replica) {
  seats_[replica]->occupancy.store(Occupancy::kLeaving);
  seats_[replica]->inbox.Dismiss();
}

void Seats::Leave(uint32_t replica) { seats_[replica]->occupancy.store(Occupancy::kVacant); }

// --- what the replica's loop says ---

void Seats::SetLease(uint32_t replica, const Lease& lease) {
  Seat& seat = *seats_[replica];
  MutexLock lock(seat.mutex);
  seat.lease = lease;
}

void Seats::SetReadiness(uint32_t replica, Readiness readiness) {
  Seat& changed = *seats_[replica];
  const Readiness before = changed.readiness.exchange(readiness);
  if (readiness == Readiness::kAway && before > readiness) {
    changed.closed_order.store(num_closings_.fetch_add(1) + 1);
  }
  if (readiness < Readiness::kTrial || before >= Readiness::kTrial) return;
  // A replica that closed has looked for an open one. If it looked before this one opened, it is
  // woken here. If it looked later, it found this one.
  for (uint32_t i = 0; i < size(); ++i) {
    if (seats_[i]->readiness.load() < Readiness::kTrial) seats_[i]->inbox.Wake();
  }
}

void Seats::SetLoad(uint32_t replica, const Load& load) {
  Seat& seat = *seats_[replica];
  seat.queued_tokens.store(load.queued_tokens, std::memory_order_relaxed);
  seat.num_sequences.store(load.num_sequences, std::memory_order_relaxed);
  seat.available_blocks.store(load.available_blocks, std::memory_order_relaxed);
  seat.free_blocks.store(load.free_blocks, std::memory_order_relaxed);
}

void Seats::NoteUnderway(uint32_t replica, uint64_t num_tokens) {
  seats_[replica]->num_underway.fetch_add(1);
  seats_[replica]->underway_tokens.fetch_add(num_tokens);
}

void Seats::NoteTaken(uint32_t replica, uint32_t num_requests, uint64_t num_tokens) {
  if (num_requests == 0) return;
  seats_[replica]->num_underway.fetch_sub(num_requests);
  seats_[replica]->underway_tokens.fetch_sub(num_tokens);
}

// --- what the others ask ---

bool Seats::TakesRequests(uint32_t replica) const {
  return seats_[replica]->occupancy.load() == Occupancy::kTaken;
}

Readiness Seats::ReadinessOf(uint32_t replica) const {
  const Readiness readiness = seats_[replica]->readiness.load();
  return TakesRequests(replica) ? readiness : Readiness::kAway;
}

std::optional<Seats::Lease> Seats::MatchLease(uint32_t replica, const PlacementQuery& query) const {
  Seat& seat = *seats_[replica];
  MutexLock lock(seat.mutex);
  if (!seat.lease.has_value() || !FitsWorker(query, seat.lease->limits)) return std::nullopt;
  if (query.bits.has_value() && *query.bits != seat.lease->bits) return std::nullopt;
  return seat.lease;
}

ReplicaLoad Seats::LoadOf(uint32_t replica, uint32_t block_size_tokens) const {
  const Seat& seat = *seats_[replica];
  const auto relaxed = [](const auto& value) { return value.load(std::memory_order_relaxed); };
  return {.eligible = true,
          .queued_tokens = relaxed(seat.queued_tokens) + relaxed(seat.underway_tokens),
          .num_sequences = relaxed(seat.num_sequences) + relaxed(seat.num_underway),
          .available_blocks = relaxed(seat.available_blocks),
          .free_blocks = relaxed(seat.free_blocks),
          .block_size_tokens = block_size_tokens};
}

}  // namespace lockstep::router
