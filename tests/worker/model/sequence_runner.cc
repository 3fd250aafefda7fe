#include "tests/worker/model/sequence_runner.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/check.h"

namespace lockstep::worker {
namespace {

constexpr BlockId kNeverRead = std::numeric_limits<BlockId>::max();

std::vector<BlockId> BlocksFor(const ForwardModelInfo& info, size_t num_tokens, BlockId first,
                               BlockId stride) {
  std::vector<BlockId> blocks;
  for (size_t i = 0; i * info.block_size_tokens < num_tokens; ++i) {
    blocks.push_back(first + static_cast<BlockId>(i) * stride);
    for (const KvGroupInfo& group : info.kv_groups) {
      LOCKSTEP_CHECK(blocks.back() < group.num_blocks, "the test's pool is too small");
    }
  }
  return blocks;
}

}  // namespace

std::vector<std::vector<BlockId>> BlockTablesAt(const ForwardModelInfo& info, uint32_t position,
                                                std::span<const BlockId> blocks) {
  std::vector<std::vector<BlockId>> tables;
  for (const KvGroupInfo& group : info.kv_groups) {
    std::vector<BlockId>& table = tables.emplace_back(blocks.begin(), blocks.end());
    if (tables.size() > 1) std::ranges::reverse(table);
    const uint32_t window = group.window_tokens;
    if (window == 0 || position < window) continue;
    std::fill_n(table.begin(), (position + 1 - window) / info.block_size_tokens, kNeverRead);
  }
  return tables;
}

SequenceRunner::SequenceRunner(ForwardModel& model, std::span<const TokenId> tokens,
                               BlockId first_block, BlockId block_stride)
    : model_(model),
      tokens_(tokens.begin(), tokens.end()),
      blocks_(BlocksFor(model.info(), tokens.size(), first_block, block_stride)) {}

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
    const auto block_tables = BlockTablesAt(model_.info(), position, blocks_);
    const ForwardRow row = {.first_token = 0,
                            .num_tokens = length,
                            .first_position = position,
                            .block_tables = block_tables};
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

TokenId BestToken(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<TokenId> DecodeGreedily(ForwardModel& model, std::span<const TokenId> prompt,
                                    size_t num_tokens) {
  const std::vector<BlockId> blocks =
      BlocksFor(model.info(), prompt.size() + num_tokens, /*first=*/0, /*stride=*/1);
  std::vector<float> logits(model.info().vocab_size);
  std::vector<TokenId> text;
  std::span<const TokenId> step = prompt;
  uint32_t position = 0;
  while (text.size() < num_tokens) {
    const uint32_t length = static_cast<uint32_t>(step.size());
    const uint32_t last = length - 1;
    const auto block_tables = BlockTablesAt(model.info(), position, blocks);
    const ForwardRow row = {.first_token = 0,
                            .num_tokens = length,
                            .first_position = position,
                            .block_tables = block_tables};
    model.Forward({.token_ids = step, .rows = {&row, 1}, .logits_tokens = {&last, 1}}, logits);
    position += length;
    text.push_back(BestToken(logits));
    step = std::span(text).last(1);
  }
  return text;
}

}  // namespace lockstep::worker
