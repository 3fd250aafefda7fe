#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "common/ids.h"
#include "common/instant.h"
#include "router/core/kv/kv_cache.h"
#include "router/core/kv/slot_pool.h"
#include "router/core/messages/worker_limits.h"
#include "router/core/requests/sequence.h"

namespace lockstep::router {

// What was planned for one row. Its outcome is checked against this alone.
struct RowRecord {
  Residency* residency = nullptr;
  SlotId slot = 0;
  uint32_t num_tokens = 0;
  // Tokens that the row returns unless it stops or fails: min_kept to max_kept. max_kept is 0 for a
  // prefill chunk without a sample. Both are equal for a row without drafts that may not wait.
  uint32_t min_kept = 0;
  uint32_t max_kept = 0;
  uint32_t max_drafts = 0;
  bool probes_drafts = false;  // see Residency

  // Position of the row's first token. Known once every row before it has retired, which results
  // do in order.
  uint32_t start() const { return residency->num_computed; }
};

struct StepRecord {
  StepId step_id = 0;
  std::vector<RowRecord> rows;
  uint32_t decode_iterations = 1;
  uint32_t num_prefill_tokens = 0;
  uint32_t num_decode_tokens = 0;
  bool prefill_full = false;  // it took as many prompt tokens as it could
  bool doomed = false;        // an earlier step was refused, so this one will be refused too
};

// Everything that lives exactly as long as one lease on a worker.
struct WorkerLease {
  // `changes`: see PrefixIndex.
  explicit WorkerLease(const WorkerLimits& worker_limits, PrefixChanges* changes = nullptr)
      : limits(worker_limits),
        kv(worker_limits.kv_groups, changes),
        slots(worker_limits.max_slots),
        row_of_slot(worker_limits.max_slots, 0) {}

  // Frees the slot now. Frees the blocks when no step in flight uses them any more.
  void Release(std::unique_ptr<Residency> residency);

  const WorkerLimits limits;
  KvCache kv;  // outlives every block table below
  SlotPool slots;
  std::deque<StepRecord> in_flight;
  std::vector<std::unique_ptr<Residency>> fenced;  // released, with rows in flight
  StepId next_step_id = 1;
  // When to tell the worker about released slots, even if nothing runs.
  Instant tell_released_at = Instant::InfiniteFuture();
  bool draining = false;             // nothing starts any more
  bool resync = false;               // the next step must make the worker drop its slots
  bool has_suspects = true;          // maybe: a sequence must run alone
  bool progressed = false;           // a sequence got further than on any lease before
  bool has_measured_prompt = false;  // the time of a step with prompt tokens
  bool contradicted = false;         // an outcome contradicted its plan: nothing more is planned
  // Rows of the last step sent.
  struct SentRow {
    SlotId slot = 0;
    uint32_t max_drafts = 0;
  };
  std::vector<SentRow> last_rows;

  // The last admission that failed. A new try is pointless while nothing that it needs has changed.
  struct BlockedStart {
    uint64_t order = 0;
    BlockCountByGroup num_needed_blocks;  // empty: none failed
    size_t num_running = 0;
    bool may_fit = false;  // more prompt blocks were cached since, so it may need fewer
  };
  BlockedStart blocked;
  // True if it still needs more blocks than are available.
  bool LacksBlocksToStart() const { return !kv.Has(blocked.num_needed_blocks); }

  std::vector<uint32_t> row_of_slot;  // scratch of Apply: row + 1, zero between calls
};

}  // namespace lockstep::router
