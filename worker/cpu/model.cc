#include "worker/cpu/model.h"

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "worker/model/decoder_pass.h"

namespace lockstep::worker {
namespace {

using kernels::kKvBlockTokens;

class CpuOps final : public StreamOps<kernels::Stream> {
 public:
  CpuOps(const kernels::Stream& stream, const CpuModelParts& parts, size_t num_sequences)
      : StreamOps(stream), parts_(parts), num_sequences_(num_sequences) {}

  absl::Status Gemm(const kernels::GemmParams& params) override {
    return kernels::Gemm(stream_, params);
  }
  absl::Status Attend(const AttentionInputs& inputs) override {
    const ModelSpec& spec = parts_.spec;
    return kernels::PagedAttention(stream_,
                                   {.query = inputs.query,
                                    .query_stride = inputs.query_stride,
                                    .output = inputs.output,
                                    .output_stride = spec.q_size(),
                                    .kv = inputs.kv,
                                    .sequences = {parts_.workspace.sequences, num_sequences_},
                                    .num_heads = spec.num_heads,
                                    .scale = spec.attention_scale});
  }
  kernels::PagedKv KvLayer(int64_t layer) override { return parts_.kv_pool.Layer(layer); }

 private:
  const CpuModelParts& parts_;
  const size_t num_sequences_;
};

}  // namespace

CpuModel::CpuModel(CpuModelParts parts)
    : parts_(std::move(parts)),
      stream_{.threads = parts_.threads.get(), .instruction_set = parts_.instruction_set} {}

void CpuModel::Forward(const ForwardBatch& batch, std::span<float> logits) {
  CheckBatchFits(batch, logits, parts_.info);
  if (batch.token_ids.empty()) return;
  StageInputs(batch);
  CpuOps ops(stream_, parts_, batch.rows.size());
  DecoderPass pass({.spec = &parts_.spec,
                    .weights = &parts_.weights,
                    .workspace = &parts_.workspace,
                    .rope_cos = parts_.rope.cos.data(),
                    .rope_sin = parts_.rope.sin.data()},
                   ops);
  const size_t num_tokens = batch.token_ids.size();
  const size_t num_logits_rows = batch.logits_tokens.size();
  const absl::Status status =
      pass.Run({.num_tokens = static_cast<int64_t>(num_tokens),
                .num_logits_rows = static_cast<int64_t>(num_logits_rows)},
               batch.token_ids.data(),
               num_logits_rows == num_tokens ? nullptr : batch.logits_tokens.data(), logits.data());
  // Shapes were checked when the model was loaded.
  LOCKSTEP_CHECK(status.ok(), "{}", Message(status));
}

void CpuModel::StageInputs(const ForwardBatch& batch) {
  Workspace& workspace = parts_.workspace;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const ForwardRow& row = batch.rows[i];
    workspace.sequences[i] = {.first_token = row.first_token,
                              .num_tokens = row.num_tokens,
                              .first_position = row.first_position,
                              .block_table = row.block_table.data()};
    for (uint32_t j = 0; j < row.num_tokens; ++j) {
      const uint32_t position = row.first_position + j;
      const uint64_t block = row.block_table[position / kKvBlockTokens];
      workspace.positions[row.first_token + j] = position;
      workspace.kv_slots[row.first_token + j] = block * kKvBlockTokens + position % kKvBlockTokens;
    }
  }
}

}  // namespace lockstep::worker
