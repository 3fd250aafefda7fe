#pragma once

#include <absl/status/status.h>
#include <absl/time/time.h>

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "common/instant.h"
#include "router/workers/step_link.h"
#include "tests/rigs/random_draws.h"
#include "tests/rigs/simulation/event_queue.h"

namespace lockstep::bench {

// A step takes fixed + per_token * (tokens) + per_sequence * (rows).
struct WorkerOptions {
  uint32_t num_blocks = 2048;
  uint32_t block_size_tokens = 16;
  uint32_t window_tokens = 0;  // of a second KV group; 0: there is none
  uint32_t window_blocks = 1024;
  uint32_t max_slots = 64;
  uint32_t max_step_tokens = 2048;
  uint32_t max_context_tokens = 16384;
  // For a row. The worker keeps a random number of them, as if they were right.
  uint32_t max_draft_tokens = 0;
  double draft_chance = -1;  // that a draft is right; below 0: any number is kept with equal chance
  absl::Duration step_fixed = absl::Milliseconds(8);
  absl::Duration step_per_token = absl::Microseconds(25);
  absl::Duration step_per_sequence = absl::Microseconds(75);
  absl::Duration link_delay = absl::Microseconds(100);  // one way
};

// Faults of every kind happen to each worker at random moments; weights are relative.
struct FaultOptions {
  absl::Duration mean_between = absl::InfiniteDuration();  // of one worker
  uint32_t crashes = 4;     // the stream breaks, everything is lost, a new incarnation comes
  uint32_t hangs = 2;       // nothing is computed for a while
  uint32_t partitions = 2;  // nothing gets through for a while; what was sent arrives late
  uint32_t stragglers = 2;  // steps take many times as long for a while
  uint32_t drains = 1;      // it says that it leaves, does so when it is empty, and comes back
  absl::Duration restart = absl::Seconds(2);
  Range outage_ms = {500, 8000};  // of hangs, partitions, stragglers
  double straggler_factor = 8;
};

// A worker and the link to it: keeps the protocol, computes texts of text_model.h, and takes the
// time that it is told to. A row must have blocks for its tokens in every KV group. Everything that
// it sends comes through the event queue.
class SimulatedWorker final : public router::StepLink {
 public:
  // Both must outlive the object.
  struct Surroundings {
    EventQueue* events;
    router::LinkEventSink* sink;
  };
  SimulatedWorker(uint32_t index, const WorkerOptions& options, const FaultOptions& faults,
                  uint64_t seed, Surroundings surroundings);

  // StepLink.
  void Start(router::LinkEventSink*) override {}
  void Send(worker::v1::StepRequest request) override;
  void DropLease(uint64_t epoch, const absl::Status& reason) override;
  void Stop() override {}

  void Handle(const Event& event);

  struct Totals {
    absl::Duration busy;           // steps, their fixed part included
    absl::Duration work;           // steps without their fixed part
    absl::Duration sequence_time;  // sum over sequences of their time in a slot
    uint64_t num_steps = 0;
    uint64_t num_tokens = 0;  // computed, prompts and generated ones
    uint64_t num_started = 0;
    uint64_t num_faults = 0;
    uint64_t num_drafted = 0;
    uint64_t num_kept_drafts = 0;
    uint64_t hash = 0;  // of everything sent, and when
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Slot {
    uint64_t text = 0;
    uint32_t num_known = 0;
    uint32_t num_computed = 0;
    uint32_t max_total_tokens = 0;
    bool taken = false;
    bool inert = false;
    std::array<uint32_t, 2> num_blocks = {};  // entries of the block table of each KV group
  };
  struct Pending {
    Instant at;
    worker::v1::StepResult result;
  };

  void Claim();
  void ScheduleFault();
  void Fail();
  void EndLife(const char* reason);
  void DeliverNext();
  void ClearSlots();
  void NoteSlots(int change);
  void ApplySlots(const worker::v1::StepRequest& request);
  void ApplyGrowth(const worker::v1::StepRequest& request);
  uint32_t num_groups() const { return options_.window_tokens > 0 ? 2 : 1; }
  // The tokens that the step computes.
  uint64_t RunRows(const worker::v1::StepRequest& request, worker::v1::StepResult& result);
  uint32_t NumRight(uint32_t num_drafted);
  void RunRow(uint32_t slot_index, uint32_t num_tokens, uint32_t draft_limit,
              worker::v1::StepResult& result);

  const uint32_t index_;
  const WorkerOptions options_;
  const FaultOptions faults_;
  const Surroundings surroundings_;
  RandomDraws random_;
  Totals totals_;

  uint64_t life_ = 1;  // also the incarnation
  uint64_t epoch_ = 0;
  uint64_t last_epoch_ = 0;
  bool draining_ = false;
  double slowness_ = 1;
  Instant busy_until_ = Instant::InfinitePast();
  Instant unreachable_until_ = Instant::InfinitePast();
  std::deque<Pending> pending_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> last_rows_;
  std::vector<uint32_t> last_draft_limits_;  // of last_rows_; empty: none
  uint32_t num_taken_ = 0;
  Instant taken_since_ = Instant();
};

}  // namespace lockstep::bench
