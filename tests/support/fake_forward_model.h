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
  std::vector<worker::KvGroupInfo> further_groups = {};  // KV groups 1, 2, ...
};

// One further group, whose layers read a window. Its pool holds two sequences or more.
FakeModelOptions FakeModelWithWindow(FakeModelOptions options = {});

// A ForwardModel without arithmetic. Its KV pool stores the token and position that were written;
// the logits of a token are pseudo-random numbers in [-8, 8) that depend on every (token, position)
// found in the pool through the row's block table, up to the token's own position. So a wrong
// block, position or order anywhere shows in the tokens. Aborts when a batch breaks the contract of
// forward_model.h, or reads a place that nothing was ever written to.
//
// In the pool of a further KV group it stores for each token a hash of the text up to that token.
// Before it computes a token, it looks at every place that the group's layers would read. It aborts
// when a place holds anything but the KV of this sequence's text there. So a block that was freed,
// reused or forgotten too early is found.
class FakeForwardModel final : public worker::ForwardModel {
 public:
  explicit FakeForwardModel(const FakeModelOptions& options = {});

  const worker::ForwardModelInfo& info() const override { return info_; }
  void Forward(const worker::ForwardBatch& batch, std::span<float> logits) override;

  // The logits that a sequence of these tokens has after its last one.
  std::vector<float> ExpectedLogits(std::span<const TokenId> tokens) const;

  // The tokens whose KV is in the first `num_tokens` places of a sequence with these blocks.
  std::vector<TokenId> TokensIn(std::span<const BlockId> blocks, uint32_t num_tokens) const;

  // Afterwards no place counts as never written. A wrong entry of a further KV group no longer
  // aborts, but shows in the logits. For routers that lie.
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
  void CheckTable(const worker::ForwardRow& row, uint32_t group) const;
  void WriteRow(const worker::ForwardBatch& batch, const worker::ForwardRow& row);
  // [position] the hash of the text up to that position, from the pool of group 0.
  void HashText(const worker::ForwardRow& row, std::vector<uint64_t>& texts);
  void WriteFurtherGroups(const worker::ForwardRow& row, const std::vector<uint64_t>& texts);
  // False if an entry that the row reads is not of its text.
  bool FurtherGroupsHold(const worker::ForwardRow& row, const std::vector<uint64_t>& texts);
  size_t PlaceOf(const worker::ForwardRow& row, uint32_t group, uint32_t position) const;
  KvEntry& At(const worker::ForwardRow& row, uint32_t position) {
    return kv_[PlaceOf(row, 0, position)];
  }
  uint64_t& TextAt(const worker::ForwardRow& row, uint32_t group, uint32_t position) {
    return further_kv_[group - 1][PlaceOf(row, group, position)];
  }
  void FillLogits(uint64_t state, std::span<float> logits) const;

  worker::ForwardModelInfo info_;
  uint64_t seed_;
  std::vector<KvEntry> kv_;  // [num_blocks, block_size_tokens]
  std::vector<std::vector<uint64_t>>
      further_kv_;                                // likewise, of groups 1, 2, ...; 0: never written
  std::vector<std::vector<uint64_t>> row_texts_;  // [row][position], of the batch
  bool wrong_kv_aborts_ = true;
  std::function<void(const worker::ForwardBatch&, std::span<float>)> after_forward_;
  uint64_t num_forwards_ = 0;
  uint64_t num_tokens_ = 0;
};

}  // namespace lockstep::testing
