#include "tests/support/fake_forward_model.h"

#include <set>

#include "common/check.h"

namespace lockstep::testing {
namespace {

// The finaliser of SplitMix64 (Steele et al., "Fast splittable pseudorandom number generators",
// 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t Fold(uint64_t state, TokenId token, uint32_t position) {
  return Mix(state ^ Mix(uint64_t{position} << 32 | token));
}

}  // namespace

FakeForwardModel::FakeForwardModel(const FakeModelOptions& options)
    : seed_(options.seed), kv_(size_t{options.num_blocks} * options.block_size_tokens) {
  info_.model_id = "fake";
  info_.vocab_size = options.vocab_size;
  info_.max_context_tokens = options.max_context_tokens;
  info_.max_step_tokens = options.max_step_tokens;
  info_.max_logits_rows = options.max_logits_rows;
  info_.block_size_tokens = options.block_size_tokens;
  info_.kv_groups = {{.num_blocks = options.num_blocks, .dtype = "none"}};
  info_.weights_dtype = "none";
  info_.device = "fake";
  info_.tensor_parallel = 2;
  info_.memory = {.weights_bytes = 100, .kv_cache_bytes = 200, .workspace_bytes = 300};
  info_.model_fingerprint = Mix(1);
  info_.weights_fingerprint = Mix(options.seed);
  info_.tokenizer_fingerprint = Mix(2);
  info_.numerics_id = Mix(3);
}

FakeForwardModel::KvEntry& FakeForwardModel::At(const worker::ForwardRow& row, uint32_t position) {
  const size_t block = row.block_tables.front()[position / info_.block_size_tokens];
  return kv_[block * info_.block_size_tokens + position % info_.block_size_tokens];
}

void FakeForwardModel::CheckBatch(const worker::ForwardBatch& batch,
                                  std::span<const float> logits) const {
  LOCKSTEP_CHECK(!batch.rows.empty(), "a batch has rows");
  LOCKSTEP_CHECK(batch.token_ids.size() <= info_.max_step_tokens,
                 "{} tokens exceed the workspace of {}", batch.token_ids.size(),
                 info_.max_step_tokens);
  LOCKSTEP_CHECK(batch.logits_tokens.size() <= info_.max_logits_rows, "{} rows of logits exceed {}",
                 batch.logits_tokens.size(), info_.max_logits_rows);
  LOCKSTEP_CHECK(logits.size() == batch.logits_tokens.size() * info_.vocab_size,
                 "logits have {} elements", logits.size());
  for (const TokenId token : batch.token_ids) {
    LOCKSTEP_CHECK(token < info_.vocab_size, "token {} is out of range", token);
  }
  size_t next_token = 0;
  for (const worker::ForwardRow& row : batch.rows) {
    LOCKSTEP_CHECK(row.first_token == next_token && row.num_tokens > 0,
                   "a row starts at token {}, not {}", row.first_token, next_token);
    next_token += row.num_tokens;
    const size_t end = size_t{row.first_position} + row.num_tokens;
    LOCKSTEP_CHECK(end <= info_.max_context_tokens, "position {} exceeds the context", end - 1);
    const std::vector<BlockId>& blocks = row.block_tables.front();
    LOCKSTEP_CHECK(blocks.size() * info_.block_size_tokens >= end,
                   "{} blocks do not cover {} tokens", blocks.size(), end);
    std::set<BlockId> distinct;
    for (const BlockId block : blocks) {
      LOCKSTEP_CHECK(block < info_.kv_groups.front().num_blocks, "block {} is out of range", block);
      LOCKSTEP_CHECK(distinct.insert(block).second, "block {} is twice in a table", block);
    }
  }
  LOCKSTEP_CHECK(next_token == batch.token_ids.size(), "rows cover {} of {} tokens", next_token,
                 batch.token_ids.size());
  for (size_t i = 0; i < batch.logits_tokens.size(); ++i) {
    LOCKSTEP_CHECK(batch.logits_tokens[i] < batch.token_ids.size(),
                   "logits of a token outside the batch");
    LOCKSTEP_CHECK(i == 0 || batch.logits_tokens[i - 1] < batch.logits_tokens[i],
                   "logits_tokens must ascend");
  }
}

void FakeForwardModel::WriteRow(const worker::ForwardBatch& batch, const worker::ForwardRow& row) {
  for (uint32_t i = 0; i < row.num_tokens; ++i) {
    const uint32_t position = row.first_position + i;
    At(row, position) = {.token = batch.token_ids[row.first_token + i], .position = position};
  }
}

void FakeForwardModel::WriteEveryPlace() {
  for (KvEntry& entry : kv_) entry = {.token = 0, .position = 0};
}

std::vector<TokenId> FakeForwardModel::TokensIn(std::span<const BlockId> blocks,
                                                uint32_t num_tokens) const {
  const uint32_t size = info_.block_size_tokens;
  std::vector<TokenId> tokens;
  for (uint32_t position = 0; position < num_tokens; ++position) {
    const KvEntry& entry = kv_[size_t{blocks[position / size]} * size + position % size];
    LOCKSTEP_CHECK(entry.position == position, "place {} holds position {}", position,
                   entry.position);
    tokens.push_back(entry.token);
  }
  return tokens;
}

void FakeForwardModel::FillLogits(uint64_t state, std::span<float> logits) const {
  for (uint32_t token = 0; token < logits.size(); ++token) {
    const uint64_t bits = Mix(state ^ Mix(~uint64_t{token}));
    logits[token] = static_cast<float>(bits >> 40) * 0x1p-20f - 8.0f;
  }
}

void FakeForwardModel::Forward(const worker::ForwardBatch& batch, std::span<float> logits) {
  CheckBatch(batch, logits);
  for (const worker::ForwardRow& row : batch.rows) WriteRow(batch, row);
  size_t next = 0;
  for (const worker::ForwardRow& row : batch.rows) {
    uint64_t state = Mix(seed_);
    for (uint32_t position = 0; position < row.first_position + row.num_tokens; ++position) {
      const KvEntry& entry = At(row, position);
      LOCKSTEP_CHECK(entry.position != UINT32_MAX, "position {} was never computed", position);
      state = Fold(state, entry.token, entry.position);
      const uint32_t token_index = row.first_token + position - row.first_position;
      if (position < row.first_position || next == batch.logits_tokens.size() ||
          batch.logits_tokens[next] != token_index) {
        continue;
      }
      FillLogits(state, logits.subspan(next * info_.vocab_size, info_.vocab_size));
      ++next;
    }
  }
  ++num_forwards_;
  num_tokens_ += batch.token_ids.size();
  if (after_forward_) after_forward_(batch, logits);
}

std::vector<float> FakeForwardModel::ExpectedLogits(std::span<const TokenId> tokens) const {
  uint64_t state = Mix(seed_);
  for (uint32_t position = 0; position < tokens.size(); ++position) {
    state = Fold(state, tokens[position], position);
  }
  std::vector<float> logits(info_.vocab_size);
  FillLogits(state, logits);
  return logits;
}

}  // namespace lockstep::testing
