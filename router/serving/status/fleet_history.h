#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/runtime/mutex.h"
#include "router/engine/replica.h"

namespace lockstep::router {

// Work of all replicas in one interval, and their state at its end.
struct FleetSample {
  uint32_t running = 0;         // sequences
  uint32_t waiting = 0;         // requests
  uint64_t prefill_tokens = 0;  // of steps planned within the interval
  uint64_t decode_tokens = 0;
  uint64_t used_blocks = 0;
  uint64_t cached_blocks = 0;
  uint64_t total_blocks = 0;
};

struct ReplicaSample {
  std::string worker;
  WorkerState state = WorkerState::kConnecting;
  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t used_blocks = 0;
  uint64_t cached_blocks = 0;
  uint64_t free_blocks = 0;
  std::vector<BlockCounts> further_groups = {};  // of KV groups 1, 2, ...; the rest is of group 0
};

// The last five minutes of a fleet, one sample per second. Safe to use from any thread.
class FleetHistory {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  static constexpr size_t kMaxSamples = 300;
  static constexpr size_t kMaxReplicas = 64;  // how many are shown one by one

  bool Due(Instant now) const;
  void Add(const std::vector<ReplicaStatus>& replicas, Instant now);

  struct View {
    uint64_t number = 0;  // of the newest sample; the view changes with it
    uint64_t num_replicas = 0;
    std::vector<ReplicaSample> replicas;  // the first kMaxReplicas
    std::vector<FleetSample> samples;     // oldest first
  };
  uint64_t number() const;
  View view() const;

 private:
  mutable Mutex mutex_;
  Instant sampled_at_ ABSL_GUARDED_BY(mutex_) = Instant::InfinitePast();
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_replicas_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t prefill_tokens_ ABSL_GUARDED_BY(mutex_) = 0;  // since start; present replicas only
  uint64_t decode_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<ReplicaSample> replicas_ ABSL_GUARDED_BY(mutex_);
  std::deque<FleetSample> samples_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::router
