#include "router/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "common/instant.h"

namespace lockstep::router {

Fleet::Fleet(const PlacementConfig& placement, uint32_t num_replicas, uint32_t max_replicas)
    : config_(placement),
      size_(num_replicas),
      directory_(std::max(num_replicas, max_replicas)),
      placement_(placement) {
  const uint32_t num_seats = std::max(num_replicas, max_replicas);
  LOCKSTEP_CHECK(num_seats > 0, "a fleet needs a seat");
  for (uint32_t i = 0; i < num_seats; ++i) {
    seats_.push_back(std::make_unique<Seat>());
    if (i < num_replicas) seats_.back()->occupancy = Occupancy::kTaken;
  }
}

// --- who is there ---

std::optional<uint32_t> Fleet::TakeSeat() {
  MutexLock routes_lock(routes_mutex_);
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

void Fleet::Dismiss(uint32_t replica) {
  MutexLock lock(routes_mutex_);
  seats_[replica]->occupancy.store(Occupancy::kLeaving);
  seats_[replica]->inbox.Dismiss();
}

void Fleet::LeaveSeat(uint32_t replica) {
  MutexLock lock(routes_mutex_);
  seats_[replica]->occupancy.store(Occupancy::kVacant);
}

// --- any thread ---

void Fleet::Submit(Submission submission) {
  const PlacementQuery query = PlacementQuery::ForNew(*submission.request);
  for (;;) {
    std::optional<uint32_t> to = Find(query, std::nullopt);
    if (!to.has_value()) to = FindRoomForNew(query);
    if (!to.has_value()) break;
    if (TryPost(*to, submission)) return;
    // The replica left after it was chosen. Choose again.
  }
  submission.ticket->StopWaiting();
  submission.outbox->End(absl::UnavailableError("there are no workers"));
  submission.outbox->Notify();
}

bool Fleet::TryPost(uint32_t replica, Submission& submission) {
  const Request& request = *submission.request;
  MutexLock lock(routes_mutex_);
  if (seats_[replica]->occupancy.load() != Occupancy::kTaken) return false;
  NoteUnderway(replica, request.prompt_tokens.size());
  routes_[request.key] = replica;
  seats_[replica]->inbox.Submit(std::move(submission));
  return true;
}

template <typename Post>
void Fleet::PostToOwner(RequestKey request, Post post) {
  MutexLock lock(routes_mutex_);
  const auto route = routes_.find(request);
  if (route != routes_.end()) post(seats_[route->second]->inbox);
}

void Fleet::Cancel(Cancellation cancellation) {
  PostToOwner(cancellation.request, [&](Inbox& inbox) { inbox.Cancel(cancellation); });
}

void Fleet::Stop(SequenceStop stop) {
  PostToOwner(stop.request, [&](Inbox& inbox) { inbox.Stop(stop); });
}

void Fleet::Close() {
  MutexLock lock(routes_mutex_);
  closed_ = true;
}

// --- the loops ---

void Fleet::SetLease(uint32_t replica, const Lease& lease) {
  Seat& seat = *seats_[replica];
  MutexLock lock(seat.mutex);
  seat.lease = lease;
}

void Fleet::SetReadiness(uint32_t replica, Readiness readiness) {
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

void Fleet::SetLoad(uint32_t replica, const Load& load) {
  Seat& seat = *seats_[replica];
  seat.queued_tokens.store(load.queued_tokens, std::memory_order_relaxed);
  seat.num_sequences.store(load.num_sequences, std::memory_order_relaxed);
  seat.available_blocks.store(load.available_blocks, std::memory_order_relaxed);
  seat.free_blocks.store(load.free_blocks, std::memory_order_relaxed);
}

void Fleet::NoteUnderway(uint32_t replica, uint64_t num_tokens) {
  seats_[replica]->num_underway.fetch_add(1);
  seats_[replica]->underway_tokens.fetch_add(num_tokens);
}

void Fleet::NoteTaken(uint32_t replica, uint32_t num_requests, uint64_t num_tokens) {
  if (num_requests == 0) return;
  seats_[replica]->num_underway.fetch_sub(num_requests);
  seats_[replica]->underway_tokens.fetch_sub(num_tokens);
}

bool Fleet::TakeRetry(Instant now) {
  MutexLock lock(placement_mutex_);
  return retries_.Take(now, size());
}

bool Fleet::HandOver(uint32_t to, Handover& handover) {
  const Request& request = *handover.delivery.submission.request;
  MutexLock lock(routes_mutex_);
  if (closed_ || seats_[to]->occupancy.load() != Occupancy::kTaken) return false;
  NoteUnderway(to, request.prompt_tokens.size());
  routes_[request.key] = to;
  seats_[to]->inbox.HandOver(std::move(handover));
  return true;
}

void Fleet::Forget(RequestKey request) {
  MutexLock lock(routes_mutex_);
  routes_.erase(request);
}

}  // namespace lockstep::router
