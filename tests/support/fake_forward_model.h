#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "worker/model/forward_model.h"

namespace lockstep::testing {

struct FakeModelOptions {
  uint32_t vocab_size = 64;
  uint32_t max_context_tokens = 256;
  uint32_t max_step_tokens = 64;
  uint32_t max_logits_rows = 16;
  uint32_t block_size_tokens = 4;
  uint32_t num_blocks = 64;
  uint64_t seed = 1;
};

// A ForwardModel without arithmetic. Its KV pool stores the token and position that were written;
// the logits of a token are pseudo-random numbers in [-8, 8) that depend on every (token, position)
// found in the pool through the row's block table, up to the token's own position. So a wrong
// block, position or order anywhere shows in the tokens. Aborts when a batch breaks the contract of
// forward_model.h, or reads a place that nothing was ever written to.
class FakeForwardModel final : public worker::ForwardModel {
 public:
  explicit FakeForwardModel(const FakeModelOptions& options = {});

  const worker::ForwardModelInfo& info() const override { return info_; }
  void Forward(const worker::ForwardBatch& batch, std::span<float> logits) override;

  // The logits that a sequence of these tokens has after its last one.
  std::vector<float> ExpectedLogits(std::span<const TokenId> tokens) const;

  // The tokens whose KV is in the first `num_tokens` places of a sequence with these blocks.
  std::vector<TokenId> TokensIn(std::span<const BlockId> blocks, uint32_t num_tokens) const;

  // Afterwards no place counts as never written.
  void WriteEveryPlace();

  // Called at the end of every Forward, on its thread; may change the logits or block.
  void set_after_forward(std::function<void(const worker::ForwardBatch&, std::span<float>)> hook) {
    after_forward_ = std::move(hook);
  }

  // --- what was asked of it ---
  uint64_t num_forwards() const { return num_forwards_; }
  uint64_t num_tokens() const { return num_tokens_; }

 private:
  struct KvEntry {
    TokenId token = 0;
    uint32_t position = UINT32_MAX;  // nothing written yet
  };

  void CheckBatch(const worker::ForwardBatch& batch, std::span<const float> logits) const;
  void WriteRow(const worker::ForwardBatch& batch, const worker::ForwardRow& row);
  KvEntry& At(const worker::ForwardRow& row, uint32_t position);
  void FillLogits(uint64_t state, std::span<float> logits) const;

  worker::ForwardModelInfo info_;
  uint64_t seed_;
  std::vector<KvEntry> kv_;  // [num_blocks, block_size_tokens]
  std::function<void(const worker::ForwardBatch&, std::span<float>)> after_forward_;
  uint64_t num_forwards_ = 0;
  uint64_t num_tokens_ = 0;
};

}  // namespace lockstep::testing
