#include "tests/worker/steps/step_messages.h"

#include <numeric>
#include <random>

namespace lockstep::testing {

namespace v1 = worker::v1;

v1::SlotSampling GreedySampling(uint32_t max_total_tokens) {
  v1::SlotSampling sampling;
  sampling.set_temperature(0);
  sampling.set_top_p(1);
  sampling.set_repetition_penalty(1);
  sampling.set_max_total_tokens(max_total_tokens);
  sampling.set_num_logprobs(-1);
  sampling.set_num_prompt_logprobs(-1);
  return sampling;
}

v1::StartedSlot MakeStarted(SlotId slot, const std::vector<TokenId>& tokens,
                            const std::vector<BlockId>& blocks, uint32_t max_total_tokens) {
  v1::StartedSlot started;
  started.set_slot(slot);
  started.mutable_known_tokens()->Add(tokens.begin(), tokens.end());
  started.set_num_prompt_tokens(static_cast<uint32_t>(tokens.size()));
  started.mutable_blocks()->Add(blocks.begin(), blocks.end());
  *started.mutable_sampling() = GreedySampling(max_total_tokens);
  return started;
}

void AddGroupBlocks(v1::StartedSlot& started, uint32_t first, const std::vector<BlockId>& blocks) {
  v1::GroupBlocks& further = *started.add_group_blocks();
  further.set_first(first);
  further.mutable_blocks()->Add(blocks.begin(), blocks.end());
}

void AddGrowth(v1::StepRequest& step, SlotId slot, uint32_t group,
               const std::vector<BlockId>& blocks) {
  step.add_grown_slots(slot);
  step.add_grown_groups(group);
  step.add_grown_counts(static_cast<uint32_t>(blocks.size()));
  step.mutable_grown_blocks()->Add(blocks.begin(), blocks.end());
}

std::vector<BlockId> BlockRange(BlockId first, uint32_t count) {
  std::vector<BlockId> blocks(count);
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

std::vector<TokenId> MakeTokens(uint32_t count, uint32_t vocab_size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab_size);
  return tokens;
}

void AddRow(v1::StepRequest& step, SlotId slot, uint32_t num_tokens) {
  step.add_run_slots(slot);
  step.add_run_tokens(num_tokens);
}

v1::StepRequest StepSequence::Next() {
  v1::StepRequest step;
  step.set_epoch(epoch_);
  step.set_step_id(++last_step_id_);
  return step;
}

}  // namespace lockstep::testing
