#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "worker/model/forward_model.h"

namespace lockstep::worker {

// A table for each KV group, for a row that begins at `position`: these blocks, and in the further
// groups the same ones in reverse. Where all tokens of a block lie behind the row's window, the
// table has no block, and must not be read.
std::vector<std::vector<BlockId>> BlockTablesAt(const ForwardModelInfo& info, uint32_t position,
                                                std::span<const BlockId> blocks);

// Feeds one sequence to a model in steps of any length, with KV blocks of its own, and keeps the
// logits.
class SequenceRunner {
 public:
  // Uses the blocks first_block, first_block + block_stride, ...
  SequenceRunner(ForwardModel& model, std::span<const TokenId> tokens, BlockId first_block = 0,
                 BlockId block_stride = 1);

  // Logits of all tokens, [tokens.size(), vocab_size], fed `step_length` at a time.
  std::vector<float> RunInStepsOf(uint32_t step_length);
  // The same with one length per step; they add up to the number of tokens.
  std::vector<float> RunInSteps(std::span<const uint32_t> step_lengths);

 private:
  ForwardModel& model_;
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
};

// The lowest id of equals.
TokenId BestToken(std::span<const float> logits);

// What the model chooses after `prompt`, each token fed back; uses the first blocks.
std::vector<TokenId> DecodeGreedily(ForwardModel& model, std::span<const TokenId> prompt,
                                    size_t num_tokens);

}  // namespace lockstep::worker
