#include "tests/worker/model/sequence_runner.h"

#include <algorithm>
#include <numeric>

#include "common/check.h"

namespace lockstep::worker {

SequenceRunner::SequenceRunner(ForwardModel& model, std::span<const TokenId> tokens,
                               BlockId first_block, BlockId block_stride)
    : model_(model), tokens_(tokens.begin(), tokens.end()) {
  const size_t block_size = model.info().block_size_tokens;
  for (size_t i = 0; i < (tokens.size() + block_size - 1) / block_size; ++i) {
    blocks_.push_back(first_block + static_cast<BlockId>(i) * block_stride);
    LOCKSTEP_CHECK(blocks_.back() < model.info().num_blocks, "the test's pool is too small");
  }
}

std::vector<float> SequenceRunner::RunInStepsOf(uint32_t step_length) {
  std::vector<uint32_t> lengths;
  for (size_t done = 0; done < tokens_.size(); done += step_length) {
    lengths.push_back(static_cast<uint32_t>(std::min<size_t>(step_length, tokens_.size() - done)));
  }
  return RunInSteps(lengths);
}

std::vector<float> SequenceRunner::RunInSteps(std::span<const uint32_t> step_lengths) {
  const uint32_t vocab_size = model_.info().vocab_size;
  std::vector<float> logits(tokens_.size() * vocab_size);
  uint32_t position = 0;
  for (const uint32_t length : step_lengths) {
    std::vector<uint32_t> wanted(length);
    std::iota(wanted.begin(), wanted.end(), 0u);
    const ForwardRow row = {
        .first_token = 0, .num_tokens = length, .first_position = position, .block_table = blocks_};
    model_.Forward({.token_ids = std::span(tokens_).subspan(position, length),
                    .rows = {&row, 1},
                    .logits_tokens = wanted},
                   std::span(logits).subspan(static_cast<size_t>(position) * vocab_size,
                                             static_cast<size_t>(length) * vocab_size));
    position += length;
  }
  LOCKSTEP_CHECK(position == tokens_.size(), "steps of {} tokens for {}", position, tokens_.size());
  return logits;
}

}  // namespace lockstep::worker
