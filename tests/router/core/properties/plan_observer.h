#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "common/ids.h"
#include "router/core/messages/step.h"
#include "router/core/scheduler.h"
#include "tests/router/core/model/model_worker.h"

namespace lockstep::router::testing {

// Watches plans go out and acknowledgements come in, and holds the scheduler to what a worker that
// runs steps strictly in order could not notice:
//  - no block is given out to be written while an unacknowledged step of somebody else may read it;
//  - no sequence runs further ahead of its results than its request allows;
//  - a prefix hit consists of KV whose writing was acknowledged before the plan was made, of the
//  same
//    text under the same salt.
class PlanObserver {
 public:
  explicit PlanObserver(const WorkerLimits& limits);

  absl::Status OnPlan(const StepPlan& plan);
  // The outcome of the oldest plan has been applied.
  void OnAcknowledged(const ModelWorker::Executed& executed);
  // It was refused: nothing was written.
  void OnRefused() { in_flight_.pop_front(); }

 private:
  // A stay of a sequence in a slot, as the plans tell it.
  struct Stay {
    uint64_t id = 0;
    std::vector<std::vector<BlockId>> tables;  // by group
    uint32_t num_computed = 0;                 // acknowledged
    uint32_t max_rows_in_flight = 0;
  };
  using Rows = std::vector<std::shared_ptr<Stay>>;  // of a step

  absl::Status OnGiven(uint32_t group, BlockId block, uint64_t stay);
  absl::Status CheckHit(const StartedSlot& started) const;
  absl::Status CheckHit(const StartedSlot& started, const GroupBlocks& blocks) const;
  absl::Status OnStarted(const StartedSlot& started);
  absl::Status OnRow(const RunRow& row, Rows& rows);
  // Whether a row of the stay, planned and not acknowledged, may read or write the block.
  bool Mentions(const Stay& stay, uint32_t group, BlockId block) const;
  KvCell& Acknowledged(uint32_t group, BlockId block, uint32_t offset) {
    return acknowledged_[group][size_t{block} * limits_.block_size_tokens() + offset];
  }

  const WorkerLimits limits_;
  std::map<SlotId, std::shared_ptr<Stay>> stays_;
  std::deque<Rows> in_flight_;
  std::vector<std::vector<KvCell>> acknowledged_;  // by group; per block and offset
  uint64_t next_stay_ = 1;
};

}  // namespace lockstep::router::testing
