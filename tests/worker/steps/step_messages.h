#pragma once

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "lockstep/worker/v1/worker.pb.h"

namespace lockstep::testing {

// Greedy, nothing asked for, nothing stops it.
worker::v1::SlotSampling GreedySampling(uint32_t max_total_tokens);

// A new sequence: all of `tokens` is prompt and nothing is computed.
worker::v1::StartedSlot MakeStarted(SlotId slot, const std::vector<TokenId>& tokens,
                                    const std::vector<BlockId>& blocks, uint32_t max_total_tokens);

// Adds the blocks of one more KV group to `started`. `first`: place of the first block in its
// table.
void AddGroupBlocks(worker::v1::StartedSlot& started, uint32_t first,
                    const std::vector<BlockId>& blocks);

// Blocks that a slot grows by in a KV group.
void AddGrowth(worker::v1::StepRequest& step, SlotId slot, uint32_t group,
               const std::vector<BlockId>& blocks);

// `count` blocks from `first` on.
std::vector<BlockId> BlockRange(BlockId first, uint32_t count);

// Pseudo-random tokens below `vocab_size`.
std::vector<TokenId> MakeTokens(uint32_t count, uint32_t vocab_size, uint64_t seed);

void AddRow(worker::v1::StepRequest& step, SlotId slot, uint32_t num_tokens);

// The messages of one lease, numbered.
class StepSequence {
 public:
  explicit StepSequence(uint64_t epoch) : epoch_(epoch) {}
  worker::v1::StepRequest Next();
  uint64_t last_step_id() const { return last_step_id_; }

 private:
  const uint64_t epoch_;
  uint64_t last_step_id_ = 0;
};

}  // namespace lockstep::testing
