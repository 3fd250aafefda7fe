#include "router/engine/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "common/violations.h"

namespace lockstep::router {

namespace {

constexpr absl::Duration kLargestWorkerRefresh = absl::Seconds(1);

bool IsAttached(WorkerState state) {
  return state == WorkerState::kReady || state == WorkerState::kDraining;
}

// Higher is better.
int WorkerRank(WorkerState state) {
  if (state == WorkerState::kReady) return 2;
  return state == WorkerState::kDraining ? 1 : 0;
}

}  // namespace

absl::Status EngineConfig::Validate() const {
  Violations violations;
  violations.Merge(admission.Validate());
  violations.Merge(replica.Validate());
  violations.Merge(placement.Validate());
  violations.Require(max_pending_output_bytes >= 4096,
                     "max_pending_output_bytes: must be at least 4096");
  violations.Require(max_replicas >= 1 && max_replicas <= 4096, "max_replicas: must be 1 to 4096");
  return violations.ToStatus();
}

Engine::Engine(EngineConfig config, std::vector<ReplicaParts> replicas, const Clock* clock,
               RouterMetrics* metrics, std::function<void()> on_readiness_change)
    : config_(std::move(config)),
      clock_(*clock),
      metrics_(*metrics),
      on_readiness_change_(std::move(on_readiness_change)),
      admission_(Admission::Make(config_.admission)),
      fleet_(config_.placement, static_cast<uint32_t>(replicas.size()), config_.max_replicas) {
  for (uint32_t i = 0; i < replicas.size(); ++i) AddReplica(i, std::move(replicas[i]));
}

Engine::~Engine() { Stop(); }

void Engine::Stop() {
  // Requests must not move to a loop that has ended.
  fleet_.Close();
  CancelAll();
  std::map<uint32_t, std::unique_ptr<ReplicaLoop>> ending;  // destroyed without the lock
  MutexLock lock(replicas_mutex_);
  ending.swap(replicas_);
}

// --- who is there ---

void Engine::AddReplica(uint32_t seat, ReplicaParts parts) {
  const auto on_worker_change = [this] {
    worker_changed_.store(true);
    on_readiness_change_();
  };
  auto loop = std::make_unique<ReplicaLoop>(
      config_.replica, std::move(parts),
      ReplicaPlace{.clock = &clock_, .metrics = &metrics_, .fleet = &fleet_, .index = seat},
      on_worker_change);
  MutexLock lock(replicas_mutex_);
  if (draining()) loop->LeaveOrphans();  // StartDrain may have missed this loop
  replicas_[seat] = std::move(loop);
}

void Engine::RemoveGone() {
  std::vector<std::pair<uint32_t, std::unique_ptr<ReplicaLoop>>> gone;
  {
    MutexLock lock(replicas_mutex_);
    for (auto& [seat, loop] : replicas_) {
      if (loop->board().gone()) gone.emplace_back(seat, std::move(loop));
    }
    for (const auto& [seat, loop] : gone) replicas_.erase(seat);
  }
  for (auto& [seat, loop] : gone) {
    const std::string worker = loop->worker();
    loop.reset();
    metrics_.RemoveWorker(worker);
    fleet_.LeaveSeat(seat);
    leaving_.erase(seat);
    spdlog::info("worker {} is gone", worker);
  }
}

size_t Engine::SetWorkers(const std::vector<std::string>& workers, const MakeParts& make) {
  if (draining()) return 0;
  RemoveGone();
  std::map<std::string, uint32_t> seats;  // of all workers, even if they leave
  std::set<uint32_t> idle;                // seats of workers that belong to another router
  {
    MutexLock lock(replicas_mutex_);
    for (const auto& [seat, loop] : replicas_) {
      seats.emplace(loop->worker(), seat);
      if (loop->stands_by()) idle.insert(seat);
    }
  }
  // New workers come first, because they take over requests from workers that leave.
  size_t num_left_out = 0;
  for (const std::string& worker : std::set(workers.begin(), workers.end())) {
    if (const auto found = seats.find(worker); found != seats.end()) {
      num_left_out += leaving_.contains(found->second);
      continue;
    }
    const std::optional<uint32_t> seat = fleet_.TakeSeat();
    if (!seat.has_value()) {
      ++num_left_out;
      continue;
    }
    spdlog::info("worker {} comes", worker);
    AddReplica(*seat, make(worker, *seat));
  }
  const bool any_ready = AnyReady(workers);
  for (const auto& [worker, seat] : seats) {
    if (!any_ready && !idle.contains(seat)) continue;
    if (std::ranges::count(workers, worker) > 0 || !leaving_.insert(seat).second) continue;
    spdlog::info("worker {} leaves", worker);
    fleet_.Dismiss(seat);
  }
  return num_left_out;
}

bool Engine::AnyReady(const std::vector<std::string>& workers) const {
  MutexLock lock(replicas_mutex_);
  return std::ranges::any_of(replicas_, [&workers](const auto& entry) {
    return entry.second->board().worker_state() == WorkerState::kReady &&
           std::ranges::count(workers, entry.second->worker()) > 0;
  });
}

// --- requests ---

absl::StatusOr<std::shared_ptr<Admission::Ticket>> Engine::Admit(uint64_t estimated_prompt_tokens,
                                                                 std::string_view owner) {
  const auto reject = [this](Rejection reason) {
    metrics_.At(metrics_.requests_rejected_total, reason).Increment();
  };
  if (draining()) {
    reject(Rejection::kDraining);
    return absl::UnavailableError("the router is shutting down");
  }
  if (absl::Status status = CheckWorkers(); !status.ok()) {
    reject(Rejection::kNoWorker);
    return status;
  }
  Rejection reason{};
  absl::StatusOr<std::shared_ptr<Admission::Ticket>> ticket =
      admission_->TryAdmit(estimated_prompt_tokens, owner, reason);
  if (!ticket.ok()) reject(reason);
  return ticket;
}

std::shared_ptr<Outbox> Engine::MakeOutbox(std::function<void()> on_ready,
                                           OutputMeter meter) const {
  return std::make_shared<Outbox>(config_.max_pending_output_bytes, std::move(on_ready),
                                  std::move(meter));
}

void Engine::CancelAll() {
  for (uint32_t i = 0; i < fleet_.size(); ++i) fleet_.inbox(i).CancelAll();
}

void Engine::StartDrain() {
  draining_.store(true);
  {
    MutexLock lock(replicas_mutex_);
    for (const auto& [seat, loop] : replicas_) loop->LeaveOrphans();
  }
  on_readiness_change_();
}

bool Engine::ready() const {
  if (draining()) return false;
  MutexLock lock(replicas_mutex_);
  return std::ranges::any_of(replicas_, [](const auto& entry) {
    return IsAttached(entry.second->board().worker_state());
  });
}

absl::Status Engine::CheckWorkers() const {
  MutexLock lock(replicas_mutex_);
  if (replicas_.empty()) return Unavailable("there are no workers");
  absl::Status first;
  for (const auto& [seat, replica] : replicas_) {
    absl::Status status = replica->board().CheckWorker();
    if (status.ok()) return status;
    if (first.ok()) first = std::move(status);
  }
  if (replicas_.size() == 1) return first;
  return Unavailable("none of {} workers is attached; of the first: {}", replicas_.size(),
                     Message(first));
}

std::vector<ReplicaStatus> Engine::replica_statuses() const {
  MutexLock lock(replicas_mutex_);
  std::vector<ReplicaStatus> all;
  all.reserve(replicas_.size());
  for (const auto& [seat, replica] : replicas_) all.push_back(replica->board().status());
  return all;
}

std::shared_ptr<const worker::v1::DescribeResponse> Engine::largest_worker() const {
  const Instant now = clock_.Now();
  MutexLock lock(largest_mutex_);
  // A change during this look causes another look.
  if (worker_changed_.exchange(false) || now < largest_at_ ||
      now - largest_at_ >= kLargestWorkerRefresh) {
    largest_at_ = now;
    largest_ = std::make_shared<const worker::v1::DescribeResponse>(
        std::move(replica_status().description));
  }
  return largest_;
}

FleetStatus Engine::replica_status() const {
  FleetStatus all;
  // Requests are checked against the worker with the longest context. Workers that are attached or
  // may soon return come first, then workers that were attached before.
  std::pair<int, uint32_t> largest_rank(-1, 0);
  int best = -1;
  MutexLock lock(replicas_mutex_);
  for (const auto& [seat, replica] : replicas_) {
    ReplicaStatus one = replica->board().status();
    all.live_requests += one.live_requests;
    const bool described = one.description.incarnation() != 0;
    const std::pair rank(described ? 1 + replica->board().CheckWorker().ok() : 0,
                         one.description.max_context_tokens());
    if (rank > largest_rank) {
      largest_rank = rank;
      all.description = std::move(one.description);
    }
    if (WorkerRank(one.worker_state) > best) {
      best = WorkerRank(one.worker_state);
      all.worker_state = one.worker_state;
      all.worker_text = std::move(one.worker_text);
    }
  }
  return all;
}

}  // namespace lockstep::router
