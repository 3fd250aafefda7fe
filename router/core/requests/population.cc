#include "router/core/requests/population.h"

#include "common/check.h"
#include "common/instant.h"
#include "common/status.h"

namespace lockstep::router {

LiveRequest& Population::Add(std::shared_ptr<const Request> request) {
  const RequestKey key = request->key;
  auto [entry, added] = requests_.emplace(key, std::make_unique<LiveRequest>());
  LOCKSTEP_CHECK(added, "request key {} is in use", key);
  LiveRequest& live = *entry->second;
  live.request = std::move(request);
  live.share = &tenants_.Enter(live.request->tenant);
  live.num_live = live.request->num_samples;
  live.samples.resize(live.num_live);
  for (uint32_t i = 0; i < live.num_live; ++i) {
    Sequence& sequence = live.samples[i];
    sequence.request = &live;
    sequence.sample_index = i;
    sequence.max_total_tokens = static_cast<uint32_t>(live.request->max_total_tokens());
    sequence.max_rows_in_flight = live.request->max_rows_in_flight;
    sequence.rows_may_wait = live.request->rows_may_wait;
    sequence.view = {.priority = live.request->priority,
                     .arrival = live.request->arrival,
                     .order = next_order_++,
                     .tenant = live.request->tenant,
                     .num_known_tokens = live.num_prompt_tokens()};
  }
  num_gated_ += live.num_live;
  LetIn(live.samples.front());
  if (live.request->deadline != Instant::InfiniteFuture()) {
    deadlines_.emplace(live.request->deadline, key);
  }
  UpdateQueue(live);
  return live;
}

LiveRequest* Population::Find(RequestKey key) {
  const auto found = requests_.find(key);
  return found == requests_.end() ? nullptr : found->second.get();
}

std::unique_ptr<LiveRequest> Population::Remove(RequestKey key) {
  const auto found = requests_.find(key);
  LOCKSTEP_CHECK(found != requests_.end(), "there is no request {} to remove", key);
  std::unique_ptr<LiveRequest> live = std::move(found->second);
  requests_.erase(found);
  deadlines_.erase({live->request->deadline, key});
  for (Sequence& sequence : live->samples) {
    if (std::holds_alternative<Gated>(sequence.state)) {
      --num_gated_;
    } else if (sequence.live()) {
      LOCKSTEP_CHECK(std::holds_alternative<Waiting>(sequence.state),
                     "a sequence of request {} is with the worker", key);
      std::erase(waiting_, &sequence);
    }
  }
  LeaveQueue(*live);
  live->waits = false;
  tenants_.Leave(live->request->tenant);
  live->share = nullptr;
  return live;
}

LiveRequest& Population::Insert(std::unique_ptr<LiveRequest> request) {
  const RequestKey key = request->request->key;
  const auto [entry, added] = requests_.emplace(key, std::move(request));
  LOCKSTEP_CHECK(added, "request key {} is in use", key);
  LiveRequest& live = *entry->second;
  live.share = &tenants_.Enter(live.request->tenant);
  for (Sequence& sequence : live.samples) {
    sequence.view.order = next_order_++;
    if (std::holds_alternative<Gated>(sequence.state)) {
      ++num_gated_;
    } else if (sequence.live()) {
      waiting_.push_back(&sequence);
    }
  }
  if (live.request->deadline != Instant::InfiniteFuture()) {
    deadlines_.emplace(live.request->deadline, key);
  }
  UpdateQueue(live);
  return live;
}

uint64_t Population::num_prefill_tokens() const {
  uint64_t num_tokens = 0;
  for (const Sequence* sequence : running_) num_tokens += sequence->num_prefill_tokens();
  return num_tokens;
}

void Population::UpdateQueue(LiveRequest& request) {
  const bool waits = request.num_live > 0 && request.num_resident == 0;
  if (waits == request.waits) return;
  request.waits = waits;
  if (waits) {
    EnterQueue(request);
  } else {
    LeaveQueue(request);
  }
}

void Population::EnterQueue(const LiveRequest& request) {
  const uint32_t num_tokens = request.num_prompt_tokens();
  ++num_waiting_requests_;
  num_waiting_tokens_ += num_tokens;
  if (request.request->computes_whole_prompt()) num_waiting_whole_tokens_ += num_tokens;
}

void Population::LeaveQueue(const LiveRequest& request) {
  const uint32_t num_tokens = request.num_prompt_tokens();
  --num_waiting_requests_;
  num_waiting_tokens_ -= num_tokens;
  if (request.request->computes_whole_prompt()) num_waiting_whole_tokens_ -= num_tokens;
}

void Population::LetIn(Sequence& sequence) {
  sequence.tokens = sequence.request->request->prompt_tokens;
  sequence.state = Waiting{};
  waiting_.push_back(&sequence);
  --num_gated_;
}

void Population::OpenGate(LiveRequest& request) {
  request.gate_open = true;
  for (Sequence& sequence : request.samples) {
    if (std::holds_alternative<Gated>(sequence.state)) LetIn(sequence);
  }
}

void Population::Start(Sequence& sequence, std::unique_ptr<Residency> residency) {
  LOCKSTEP_CHECK(std::holds_alternative<Waiting>(sequence.state), "only a waiting sequence starts");
  std::erase(waiting_, &sequence);
  running_.push_back(&sequence);
  sequence.state = Running{std::move(residency)};
  ++sequence.request->num_resident;
  ++sequence.request->share->num_running;
  UpdateQueue(*sequence.request);
}

// The caller gives the sequence its next state.
std::unique_ptr<Residency> Population::TakeOffWorker(Sequence& sequence, const WorkerLease& lease,
                                                     Instant now) {
  LiveRequest& request = *sequence.request;
  std::erase(running_, &sequence);
  --request.num_resident;
  --request.share->num_running;
  // A lease that computes nothing new does not restart the wait for a worker.
  if (lease.progressed) request.served_until = now;
  return std::move(std::get<Running>(sequence.state).residency);
}

void Population::Suspend(Sequence& sequence, WorkerLease& lease, Instant now) {
  LOCKSTEP_CHECK(sequence.running() != nullptr, "only a running sequence is suspended");
  std::unique_ptr<Residency> residency = TakeOffWorker(sequence, lease, now);
  if (residency->rows_in_flight > 0) {
    sequence.state = Draining{residency.get()};
  } else {
    sequence.state = Waiting{};
  }
  lease.Release(std::move(residency));
  waiting_.push_back(&sequence);
  UpdateQueue(*sequence.request);
}

void Population::Resume(Sequence& sequence) {
  LOCKSTEP_CHECK(std::holds_alternative<Draining>(sequence.state), "only what drains is resumed");
  sequence.state = Waiting{};
}

void Population::End(Sequence& sequence, Ending ending, WorkerLease* lease, Instant now) {
  LiveRequest& request = *sequence.request;
  LOCKSTEP_CHECK(sequence.live(), "sample {} of request {} ends twice", sequence.sample_index,
                 request.request->key);
  if (sequence.running() != nullptr) {
    std::unique_ptr<Residency> residency = TakeOffWorker(sequence, *lease, now);
    residency->owner = nullptr;
    lease->Release(std::move(residency));
  } else if (std::holds_alternative<Gated>(sequence.state)) {
    --num_gated_;
  } else {
    if (auto* draining = std::get_if<Draining>(&sequence.state)) {
      draining->residency->owner = nullptr;
    }
    std::erase(waiting_, &sequence);
  }
  sequence.state = Ended{};
  --request.num_live;
  while (request.leader < request.samples.size() && !request.samples[request.leader].live()) {
    ++request.leader;
  }
  if (request.num_live > 0) {
    Sequence& leader = request.samples[request.leader];
    if (std::holds_alternative<Gated>(leader.state)) LetIn(leader);
  }
  UpdateQueue(request);
  Emit(FinishedEvent{.request = request.request->key,
                     .sample_index = sequence.sample_index,
                     .reason = ending.reason,
                     .stop_token = ending.stop_token,
                     .error = std::move(ending.error),
                     .num_cached_tokens = sequence.num_cached_tokens.value_or(0),
                     .num_generated_tokens = sequence.num_generated()});
  if (request.num_live == 0) ended_.push_back(request.request->key);
}

void Population::EndAll(LiveRequest& request, const Ending& ending, WorkerLease* lease) {
  for (Sequence& sequence : request.samples) {
    // No other sample waits, so the time has no meaning.
    if (sequence.live()) End(sequence, ending, lease, Instant::InfinitePast());
  }
}

void Population::ForgetEnded() {
  for (RequestKey key : ended_) {
    const auto found = requests_.find(key);
    deadlines_.erase({found->second->request->deadline, key});
    tenants_.Leave(found->second->request->tenant);
    requests_.erase(found);
  }
  ended_.clear();
}

void Population::LeaveWorker(WorkerLease& lease, const absl::Status& reason, Instant now) {
  lease.in_flight.clear();
  std::vector<Sequence*> in_flight;
  while (!running_.empty()) {
    Sequence& sequence = *running_.back();
    Residency& residency = *sequence.running();
    if (residency.rows_in_flight > 0) in_flight.push_back(&sequence);
    residency.rows_in_flight = 0;
    Suspend(sequence, lease, now);
  }
  for (const auto& residency : lease.fenced) {
    if (residency->owner == nullptr) continue;
    in_flight.push_back(residency->owner);
    Resume(*residency->owner);
  }
  lease.fenced.clear();
  for (Sequence* sequence : waiting_) sequence->num_refusals = 0;  // the next worker may take it
  for (Sequence* sequence : in_flight) CountLoss(*sequence, reason, now);
}

void Population::CountLoss(Sequence& sequence, const absl::Status& reason, Instant now) {
  sequence.losses = {.count = sequence.num_losses() + 1,
                     .furthest_computed = sequence.furthest_computed};
  if (sequence.losses.count < kMaxLosses) return;
  const absl::Status error = Internal(
      "{} workers were lost while they ran this sequence after its {} computed tokens, the last "
      "{} while they ran nothing else: {}",
      kMaxLosses, sequence.furthest_computed, kMaxLoneLosses, reason.ToString());
  End(sequence, {.error = error}, nullptr, now);
}

std::vector<SchedulerEvent> Population::TakeEvents() {
  std::vector<SchedulerEvent> taken;
  if (events_.empty()) return taken;
  taken.reserve(events_.size());  // the next step brings about as many
  taken.swap(events_);
  return taken;
}

}  // namespace lockstep::router
