#include "tests/support/fake_forward_model.h"

#include <algorithm>
#include <set>
#include <utility>

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

FakeModelOptions FakeModelWithWindow(FakeModelOptions options) {
  options.further_groups = {{.num_blocks = 24, .window_tokens = 10, .dtype = "none"}};
  return options;
}

FakeForwardModel::FakeForwardModel(const FakeModelOptions& options)
    : seed_(options.seed), kv_(size_t{options.num_blocks} * options.block_size_tokens) {
  info_.model_id = "fake";
  info_.vocab_size = options.vocab_size;
  info_.max_context_tokens = options.max_context_tokens;
  info_.max_step_tokens = options.max_step_tokens;
  info_.max_logits_rows = options.max_logits_rows;
  info_.block_size_tokens = options.block_size_tokens;
  info_.kv_groups = {{.num_blocks = options.num_blocks, .dtype = "none"}};
  for (const worker::KvGroupInfo& group : options.further_groups) {
    info_.kv_groups.push_back(group);
    further_kv_.emplace_back(size_t{group.num_blocks} * options.block_size_tokens, 0);
  }
  info_.weights_dtype = "none";
  info_.device = "fake";
  info_.tensor_parallel = 2;
  info_.memory = {.weights_bytes = 100, .kv_cache_bytes = 200, .workspace_bytes = 300};
  info_.model_fingerprint = Mix(1);
  info_.weights_fingerprint = Mix(options.seed);
  info_.tokenizer_fingerprint = Mix(2);
  info_.numerics_id = Mix(3);
}

size_t FakeForwardModel::PlaceOf(const worker::ForwardRow& row, uint32_t group,
                                 uint32_t position) const {
  const size_t block = row.block_tables[group][position / info_.block_size_tokens];
  return block * info_.block_size_tokens + position % info_.block_size_tokens;
}

void FakeForwardModel::CheckTable(const worker::ForwardRow& row, uint32_t group) const {
  const size_t end = size_t{row.first_position} + row.num_tokens;
  const std::vector<BlockId>& blocks = row.block_tables[group];
  LOCKSTEP_CHECK(blocks.size() * info_.block_size_tokens >= end,
                 "{} blocks of group {} do not cover {} tokens", blocks.size(), group, end);
  const size_t first_read =
      info_.kv_groups[group].FirstRead(row.first_position) / info_.block_size_tokens;
  std::set<BlockId> distinct;
  for (size_t i = first_read; i < blocks.size(); ++i) {
    LOCKSTEP_CHECK(blocks[i] < info_.kv_groups[group].num_blocks,
                   "block {} of group {} is out of range", blocks[i], group);
    LOCKSTEP_CHECK(distinct.insert(blocks[i]).second, "block {} of group {} is twice in a table",
                   blocks[i], group);
  }
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
    LOCKSTEP_CHECK(row.block_tables.size() == info_.kv_groups.size(),
                   "{} block tables for {} KV groups", row.block_tables.size(),
                   info_.kv_groups.size());
    for (uint32_t group = 0; group < info_.kv_groups.size(); ++group) CheckTable(row, group);
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
  wrong_kv_aborts_ = false;
}

void FakeForwardModel::HashText(const worker::ForwardRow& row, std::vector<uint64_t>& texts) {
  texts.clear();
  uint64_t state = Mix(seed_);
  for (uint32_t position = 0; position < row.first_position + row.num_tokens; ++position) {
    const KvEntry& entry = At(row, position);
    LOCKSTEP_CHECK(entry.position != UINT32_MAX, "position {} was never computed", position);
    state = Fold(state, entry.token, entry.position);
    texts.push_back(state);
  }
}

void FakeForwardModel::WriteFurtherGroups(const worker::ForwardRow& row,
                                          const std::vector<uint64_t>& texts) {
  for (uint32_t group = 1; group < info_.kv_groups.size(); ++group) {
    for (uint32_t position = row.first_position; position < texts.size(); ++position) {
      TextAt(row, group, position) = texts[position];
    }
  }
}

bool FakeForwardModel::FurtherGroupsHold(const worker::ForwardRow& row,
                                         const std::vector<uint64_t>& texts) {
  for (uint32_t group = 1; group < info_.kv_groups.size(); ++group) {
    const uint32_t first_read = info_.kv_groups[group].FirstRead(row.first_position);
    for (uint32_t position = first_read; position < texts.size(); ++position) {
      if (TextAt(row, group, position) == texts[position]) continue;
      LOCKSTEP_CHECK(!wrong_kv_aborts_,
                     "group {}: the KV at position {} is not of the text that token {} reads",
                     group, position, row.first_position);
      return false;
    }
  }
  return true;
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
  row_texts_.resize(std::max(row_texts_.size(), batch.rows.size()));
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    HashText(batch.rows[i], row_texts_[i]);
    WriteFurtherGroups(batch.rows[i], row_texts_[i]);
  }
  size_t next = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const worker::ForwardRow& row = batch.rows[i];
    const uint64_t wrong = FurtherGroupsHold(row, row_texts_[i]) ? 0 : 1;
    for (; next < batch.logits_tokens.size(); ++next) {
      const uint32_t in_row = batch.logits_tokens[next] - row.first_token;
      if (in_row >= row.num_tokens) break;
      FillLogits(row_texts_[i][row.first_position + in_row] ^ wrong,
                 logits.subspan(next * info_.vocab_size, info_.vocab_size));
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
