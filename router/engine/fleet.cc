#include "router/engine/fleet.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace lockstep::router {
namespace {

bool FitsWorker(const PlacementQuery& query, const WorkerLimits& limits) {
  const uint64_t num_prompt_tokens = query.request->prompt_tokens.size();
  const uint64_t total = num_prompt_tokens + query.request->sampling.max_new_tokens;
  const uint64_t pool_tokens = uint64_t{limits.num_blocks} * limits.block_size_tokens;
  return total <= limits.max_context_tokens &&
         std::max<uint64_t>(num_prompt_tokens, query.known_tokens.size()) <= pool_tokens;
}

}  // namespace

Fleet::Fleet(const PlacementConfig& placement, uint32_t num_replicas)
    : config_(placement), directory_(num_replicas), placement_(placement) {
  LOCKSTEP_CHECK(num_replicas > 0, "a fleet needs a replica");
  for (uint32_t i = 0; i < num_replicas; ++i) seats_.push_back(std::make_unique<Seat>());
}

// --- any thread ---

void Fleet::Submit(Submission submission) {
  const Request& request = *submission.request;
  const PlacementQuery query = {.request = &request, .known_tokens = request.prompt_tokens};
  const std::optional<uint32_t> found = Find(query, std::nullopt);
  const uint32_t to = found.has_value() ? *found : FindWaitingRoom();
  NoteUnderway(to, request.prompt_tokens.size());
  MutexLock lock(routes_mutex_);
  routes_[request.key] = to;
  seats_[to]->inbox.Submit(std::move(submission));
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

void Fleet::SetOpenness(uint32_t replica, Openness openness) {
  Seat& changed = *seats_[replica];
  const Openness before = changed.openness.exchange(openness);
  if (openness == Openness::kClosed && before != openness) {
    changed.closed_order.store(num_closings_.fetch_add(1) + 1);
  }
  if (openness != Openness::kOpen || before == Openness::kOpen) return;
  // One that closed and looked for an open one did so before this one opened, and is woken here, or
  // after, and found it.
  for (const std::unique_ptr<Seat>& seat : seats_) {
    if (seat->openness.load() != Openness::kOpen) seat->inbox.Wake();
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

bool Fleet::AnyOtherOpen(uint32_t replica) const {
  for (uint32_t i = 0; i < size(); ++i) {
    if (i != replica && seats_[i]->openness.load() == Openness::kOpen) return true;
  }
  return false;
}

std::optional<uint32_t> Fleet::FindOther(uint32_t replica, const PlacementQuery& query) {
  return Find(query, replica);
}

bool Fleet::HandOver(uint32_t to, Handover& handover) {
  const Request& request = *handover.delivery.submission.request;
  MutexLock lock(routes_mutex_);
  if (closed_) return false;
  NoteUnderway(to, request.prompt_tokens.size());
  routes_[request.key] = to;
  seats_[to]->inbox.HandOver(std::move(handover));
  return true;
}

void Fleet::Forget(RequestKey request) {
  MutexLock lock(routes_mutex_);
  routes_.erase(request);
}

// --- placement ---

std::optional<uint32_t> Fleet::Find(const PlacementQuery& query, std::optional<uint32_t> except) {
  std::vector<ReplicaLoad> replicas(size());
  uint32_t num_eligible = 0;
  for (uint32_t i = 0; i < size(); ++i) {
    Seat& seat = *seats_[i];
    if (i == except || seat.openness.load() != Openness::kOpen) continue;
    Lease lease;
    {
      MutexLock lock(seat.mutex);
      lease = seat.lease;
    }
    if (query.bits.has_value() && *query.bits != lease.bits) continue;
    const auto relaxed = [](const auto& value) { return value.load(std::memory_order_relaxed); };
    const bool fits = FitsWorker(query, lease.limits);
    if (fits) ++num_eligible;
    replicas[i] = {.eligible = fits,
                   .queued_tokens = relaxed(seat.queued_tokens) + relaxed(seat.underway_tokens),
                   .num_sequences = relaxed(seat.num_sequences) + relaxed(seat.num_underway),
                   .available_blocks = relaxed(seat.available_blocks),
                   .free_blocks = relaxed(seat.free_blocks),
                   .block_size_tokens = lease.limits.block_size_tokens};
  }
  if (num_eligible > 1) FillCachedTokens(query, replicas);
  const PlacementRequest request = {
      .key = query.request->key,
      .num_known_tokens = static_cast<uint32_t>(query.known_tokens.size()),
      .suspect = query.suspect};
  MutexLock lock(placement_mutex_);
  return placement_.Choose(request, replicas);
}

// Where new requests wait for a worker, or are told why they cannot be served: where they do not
// fit; else where a worker drains; else where one was lost last.
uint32_t Fleet::FindWaitingRoom() const {
  const auto rank = [this](uint32_t replica) {
    const Seat& seat = *seats_[replica];
    return std::pair(seat.openness.load(), seat.closed_order.load());
  };
  uint32_t room = 0;
  for (uint32_t i = 1; i < size(); ++i) {
    if (rank(i) > rank(room)) room = i;
  }
  return room;
}

// Once per size of block: prefixes of one are none of another.
void Fleet::FillCachedTokens(const PlacementQuery& query, std::span<ReplicaLoad> replicas) const {
  if (config_.policy != PlacementPolicy::kPrefixAware || query.request->bypass_prefix_cache ||
      query.known_tokens.empty()) {
    return;
  }
  std::vector<uint32_t> cached(replicas.size());
  std::vector<uint32_t> block_sizes;
  for (const ReplicaLoad& replica : replicas) {
    if (replica.eligible && !std::ranges::count(block_sizes, replica.block_size_tokens)) {
      block_sizes.push_back(replica.block_size_tokens);
    }
  }
  for (const uint32_t block_size : block_sizes) {
    // The last known token is always computed.
    directory_.Match(query.request->cache_salt, block_size,
                     query.known_tokens.first(query.known_tokens.size() - 1), cached);
    for (size_t i = 0; i < replicas.size(); ++i) {
      if (replicas[i].block_size_tokens == block_size) replicas[i].cached_tokens = cached[i];
    }
  }
}

}  // namespace lockstep::router
