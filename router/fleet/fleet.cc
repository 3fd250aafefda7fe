#include "router/fleet/fleet.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"

namespace lockstep::router {

Fleet::Fleet(const PlacementConfig& placement, uint32_t num_replicas, uint32_t max_replicas)
    : seats_(num_replicas, std::max(num_replicas, max_replicas)),
      directory_(std::max(num_replicas, max_replicas)),
      finder_(placement, seats_, directory_) {}

// --- who is there ---

std::optional<uint32_t> Fleet::TakeSeat() {
  MutexLock lock(routes_mutex_);
  return seats_.Take();
}

void Fleet::Dismiss(uint32_t replica) {
  MutexLock lock(routes_mutex_);
  seats_.Dismiss(replica);
}

void Fleet::LeaveSeat(uint32_t replica) {
  MutexLock lock(routes_mutex_);
  seats_.Leave(replica);
}

// --- any thread ---

void Fleet::Submit(Submission submission) {
  const PlacementQuery query = PlacementQuery::ForNew(*submission.request);
  for (;;) {
    std::optional<uint32_t> to = finder_.Find(query, std::nullopt);
    if (!to.has_value()) to = finder_.FindRoomForNew(query);
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
  if (!seats_.TakesRequests(replica)) return false;
  seats_.NoteUnderway(replica, request.prompt_tokens.size());
  routes_[request.key] = replica;
  seats_.inbox(replica).Submit(std::move(submission));
  return true;
}

template <typename Post>
void Fleet::PostToOwner(RequestKey request, Post post) {
  MutexLock lock(routes_mutex_);
  const auto route = routes_.find(request);
  if (route != routes_.end()) post(seats_.inbox(route->second));
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

bool Fleet::AnyOtherReady(uint32_t replica) const {
  for (uint32_t i = 0; i < size(); ++i) {
    if (i != replica && seats_.IsOpen(i)) return true;
  }
  return false;
}

bool Fleet::AnyOtherTakes(uint32_t replica, const PlacementQuery& query) const {
  for (uint32_t i = 0; i < size(); ++i) {
    if (i != replica && seats_.IsOpen(i) && seats_.MatchLease(i, query).has_value()) return true;
  }
  return false;
}

std::optional<uint32_t> Fleet::FindOtherOrRoom(uint32_t replica, const PlacementQuery& query) {
  const std::optional<uint32_t> open = finder_.Find(query, replica);
  return open.has_value() ? open : finder_.FindRoom(query, replica);
}

bool Fleet::TakeRetry(Instant now) {
  MutexLock lock(retries_mutex_);
  return retries_.Take(now, size());
}

bool Fleet::HandOver(uint32_t to, Handover& handover) {
  const Request& request = *handover.delivery.submission.request;
  MutexLock lock(routes_mutex_);
  if (closed_ || !seats_.TakesRequests(to)) return false;
  seats_.NoteUnderway(to, request.prompt_tokens.size());
  routes_[request.key] = to;
  seats_.inbox(to).HandOver(std::move(handover));
  return true;
}

void Fleet::Forget(RequestKey request) {
  MutexLock lock(routes_mutex_);
  routes_.erase(request);
}

}  // namespace lockstep::router
