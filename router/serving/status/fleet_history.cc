#include "router/serving/status/fleet_history.h"

#include <algorithm>
#include <utility>

#include "common/instant.h"

namespace lockstep::router {
namespace {

ReplicaSample SampleOf(const ReplicaStatus& replica) {
  const SchedulerStats& stats = replica.scheduler;
  return {.worker = replica.worker,
          .state = replica.worker_state,
          .running = stats.running_sequences,
          .waiting = stats.waiting_requests,
          .used_blocks = uint64_t{stats.used_blocks} + stats.fenced_blocks,
          .cached_blocks = stats.cached_blocks,
          .free_blocks = stats.free_blocks,
          .further_groups = stats.further_groups};
}

// A fleet that lost a replica may have lower counts than before.
uint64_t Growth(uint64_t now, uint64_t before) { return now > before ? now - before : 0; }

}  // namespace

bool FleetHistory::Due(Instant now) const {
  MutexLock lock(mutex_);
  return now - sampled_at_ >= kInterval;
}

void FleetHistory::Add(const std::vector<ReplicaStatus>& replicas, Instant now) {
  FleetSample sum;
  uint64_t prefill_tokens = 0;
  uint64_t decode_tokens = 0;
  std::vector<ReplicaSample> shown;
  for (const ReplicaStatus& replica : replicas) {
    const ReplicaSample sample = SampleOf(replica);
    sum.running += sample.running;
    sum.waiting += sample.waiting;
    sum.used_blocks += sample.used_blocks;
    sum.cached_blocks += sample.cached_blocks;
    sum.total_blocks += sample.used_blocks + sample.cached_blocks + sample.free_blocks;
    prefill_tokens += replica.scheduler.planned_prefill_tokens;
    decode_tokens += replica.scheduler.planned_decode_tokens;
    if (shown.size() < kMaxReplicas) shown.push_back(sample);
  }
  MutexLock lock(mutex_);
  sum.prefill_tokens = Growth(prefill_tokens, std::exchange(prefill_tokens_, prefill_tokens));
  sum.decode_tokens = Growth(decode_tokens, std::exchange(decode_tokens_, decode_tokens));
  sampled_at_ = now;
  ++number_;
  num_replicas_ = replicas.size();
  replicas_ = std::move(shown);
  samples_.push_back(sum);
  if (samples_.size() > kMaxSamples) samples_.pop_front();
}

uint64_t FleetHistory::number() const {
  MutexLock lock(mutex_);
  return number_;
}

FleetHistory::View FleetHistory::view() const {
  MutexLock lock(mutex_);
  return {.number = number_,
          .num_replicas = num_replicas_,
          .replicas = replicas_,
          .samples = {samples_.begin(), samples_.end()}};
}

}  // namespace lockstep::router
