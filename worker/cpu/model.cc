#include "worker/cpu/model.h"

#include <chrono>
#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "worker/model/decoder_pass.h"

namespace lockstep::worker {
namespace {

using kernels::kKvBlockTokens;

// A rank that waits longer than this for another rank ends the process. Ranks do equal work between
// two exchanges, so they differ only by the time that other programs take from them.
constexpr std::chrono::seconds kRankHungAfter{60};

class CpuOps final : public StreamOps<kernels::Stream> {
 public:
  CpuOps(const kernels::Stream& stream, CpuRank& rank, ThreadGroup& group, size_t num_sequences)
      : StreamOps(stream), rank_(rank), group_(group), num_sequences_(num_sequences) {}

  absl::Status Gemm(const kernels::GemmParams& params) override {
    return kernels::Gemm(stream_, params);
  }
  absl::Status Attend(const AttentionInputs& inputs) override {
    const kernels::AttentionSequence* const sequences =
        rank_.workspace.kv_inputs[inputs.attention->kv_group].sequences;
    return kernels::PagedAttention(stream_, {.query = inputs.query,
                                             .query_stride = inputs.query_stride,
                                             .output = inputs.output,
                                             .output_stride = inputs.attention->q_size(),
                                             .kv = inputs.kv,
                                             .sequences = {sequences, num_sequences_},
                                             .num_heads = inputs.attention->num_heads,
                                             .scale = inputs.attention->scale,
                                             .window_tokens = inputs.attention->window_tokens});
  }
  absl::Status AllGather(const AllGatherParams& params) override {
    group_.AllGather(static_cast<int>(rank_.rank.rank), params);
    return absl::OkStatus();
  }
  kernels::PagedKv KvLayer(size_t kv_group, int64_t index) override {
    return rank_.kv_pool.Layer(kv_group, index);
  }

 private:
  CpuRank& rank_;
  ThreadGroup& group_;
  const size_t num_sequences_;
};

// If there is a window, reads only the block table entries of the row's own tokens.
void StageInputs(const ForwardBatch& batch, Workspace& workspace) {
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const ForwardRow& row = batch.rows[i];
    for (uint32_t j = 0; j < row.num_tokens; ++j) {
      workspace.positions[row.first_token + j] = row.first_position + j;
    }
    for (size_t group = 0; group < workspace.kv_inputs.size(); ++group) {
      const KvInputs& inputs = workspace.kv_inputs[group];
      const BlockId* const blocks = row.block_tables[group].data();
      inputs.sequences[i] = {.first_token = row.first_token,
                             .num_tokens = row.num_tokens,
                             .first_position = row.first_position,
                             .block_table = blocks};
      for (uint32_t j = 0; j < row.num_tokens; ++j) {
        const uint32_t position = row.first_position + j;
        inputs.kv_slots[row.first_token + j] =
            uint64_t{blocks[position / kKvBlockTokens]} * kKvBlockTokens +
            position % kKvBlockTokens;
      }
    }
  }
}

std::vector<Rotation> RotationsOf(const std::vector<kernels::RopeTable>& tables) {
  std::vector<Rotation> rotations;
  rotations.reserve(tables.size());
  for (const kernels::RopeTable& table : tables) {
    rotations.push_back({.cos = table.cos.data(), .sin = table.sin.data()});
  }
  return rotations;
}

}  // namespace

CpuModel::CpuModel(CpuModelParts parts)
    : parts_(std::move(parts)),
      rotations_(RotationsOf(parts_.ropes)),
      group_(static_cast<int>(parts_.ranks.size()), kRankHungAfter),
      team_(static_cast<int>(parts_.ranks.size())) {}

void CpuModel::Forward(const ForwardBatch& batch, std::span<float> logits) {
  CheckBatchFits(batch, logits, parts_.info);
  if (batch.token_ids.empty()) return;
  team_.Run(static_cast<int>(parts_.ranks.size()),
            [&](int index) { RunRank(parts_.ranks[static_cast<size_t>(index)], batch, logits); });
}

void CpuModel::RunRank(CpuRank& rank, const ForwardBatch& batch, std::span<float> logits) {
  StageInputs(batch, rank.workspace);
  const kernels::Stream stream = {.threads = rank.threads.get(),
                                  .instruction_set = parts_.instruction_set};
  CpuOps ops(stream, rank, group_, batch.rows.size());
  const PassContext context = {.plan = &parts_.plan,
                               .share = &rank.share,
                               .rank = rank.rank,
                               .weights = &rank.weights,
                               .workspace = &rank.workspace,
                               .rotations = rotations_};
  const size_t num_tokens = batch.token_ids.size();
  const size_t num_logits_rows = batch.logits_tokens.size();
  // Every rank writes its columns of the same logits.
  const int64_t vocab_size = parts_.plan.vocab_size;
  const absl::Status status = RunDecoderPass(
      context, ops,
      {.num_tokens = static_cast<int64_t>(num_tokens),
       .token_ids = batch.token_ids.data(),
       .logits_tokens = num_logits_rows == num_tokens ? nullptr : batch.logits_tokens.data(),
       .num_logits_rows = static_cast<int64_t>(num_logits_rows)},
      {.data = logits.data() + rank.rank.Begin(vocab_size), .stride = vocab_size});
  // Shapes were checked when the model was loaded.
  LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
}

}  // namespace lockstep::worker
