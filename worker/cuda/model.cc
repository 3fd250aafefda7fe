#include "worker/cuda/model.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/device/cuda_status.h"
#include "worker/cuda/model_parts.h"
#include "worker/model/decoder_pass.h"

namespace lockstep::worker {
namespace {

class CudaOps final : public StreamOps<kernels::CudaStream> {
 public:
  CudaOps(CudaModel::Parts& parts, const CudaBatch& batch)
      : StreamOps(parts.stream), parts_(parts), batch_(batch) {}

  absl::Status Gemm(const kernels::GemmParams& params) override {
    return parts_.gemm->Run(stream_, params);
  }
  absl::Status Attend(const AttentionInputs& inputs) override {
    LOCKSTEP_RETURN_IF_ERROR(AttendDecodeRows(inputs));
    return AttendChunks(inputs);
  }
  absl::Status GatedGemm(const kernels::GemmParams& gate_up,
                         const kernels::SwiGluParams& swiglu) override {
    return parts_.fuses_activation ? parts_.gemm->RunGated(stream_, gate_up, swiglu)
                                   : StreamOps::GatedGemm(gate_up, swiglu);
  }
  absl::Status GeluGemm(const kernels::GemmParams& product,
                        const kernels::GeluParams& gelu) override {
    return parts_.fuses_activation ? parts_.gemm->RunGelu(stream_, product, gelu)
                                   : StreamOps::GeluGemm(product, gelu);
  }
  kernels::PagedKv KvLayer(int64_t layer) override { return parts_.kv_pool.Layer(layer); }
  absl::StatusOr<bool> RunLayers(int64_t num_tokens) override {
    FusedLayers& fused = parts_.fused_layers;
    if (batch_.num_chunks > 0 || num_tokens > fused.max_rows ||
        batch_.max_decode_keys > fused.max_keys) {
      return false;
    }
    ++fused.num_passes;
    const Workspace& workspace = parts_.workspace;
    const bool has_positions = parts_.spec.positions == PositionKind::kLearned;
    LOCKSTEP_RETURN_IF_ERROR(kernels::DecodeLayers(
        stream_, {.shape = fused.shape,
                  .layers = fused.layers,
                  .norm_eps = parts_.spec.norm_eps,
                  .attention_scale = parts_.spec.attention_scale,
                  .cos = parts_.rope_cos,
                  .sin = parts_.rope_sin,
                  .num_rows = num_tokens,
                  .positions = workspace.positions,
                  .kv_slots = workspace.kv_slots,
                  .block_tables = parts_.slots.block_tables,
                  .block_table_stride = parts_.slots.max_blocks,
                  .block_table_rows = batch_.decode_slots,
                  .embeddings = workspace.residual,
                  .position_embeddings = has_positions ? workspace.delta : nullptr,
                  .residual = workspace.last_residual,
                  .delta = workspace.delta,
                  .scratch = fused.scratch,
                  .num_scratch_words = fused.num_scratch_words}));
    return true;
  }

 private:
  absl::Status AttendDecodeRows(const AttentionInputs& inputs) {
    if (batch_.num_decode_rows == 0) return absl::OkStatus();
    const ModelSpec& spec = parts_.spec;
    const kernels::PagedDecodeAttentionParams params = {
        .query = inputs.query,
        .query_stride = inputs.query_stride,
        .output = inputs.output,
        .output_stride = spec.q_size(),
        .kv = inputs.kv,
        .num_heads = spec.num_heads,
        .scale = spec.attention_scale,
        .num_rows = batch_.num_decode_rows,
        .positions = parts_.workspace.positions,
        .block_tables = parts_.slots.block_tables,
        .block_table_stride = parts_.slots.max_blocks,
        .block_table_rows = batch_.decode_slots,
        .max_keys = batch_.max_decode_keys,
        .may_share = batch_.decode_rows_share,
        .plan = parts_.attention_plan,
        .partials = parts_.attention_partials,
        .arrivals = parts_.attention_arrivals};
    if (!has_decode_plan_) LOCKSTEP_RETURN_IF_ERROR(PlanPagedDecode(stream_, params));
    has_decode_plan_ = true;
    return kernels::PagedDecodeAttention(stream_, params);
  }
  absl::Status AttendChunks(const AttentionInputs& inputs) {
    if (batch_.num_chunks == 0) return absl::OkStatus();
    const ModelSpec& spec = parts_.spec;
    return kernels::PagedPrefillAttention(stream_, {.query = inputs.query,
                                                    .query_stride = inputs.query_stride,
                                                    .output = inputs.output,
                                                    .output_stride = spec.q_size(),
                                                    .kv = inputs.kv,
                                                    .num_heads = spec.num_heads,
                                                    .scale = spec.attention_scale,
                                                    .chunks = parts_.chunks,
                                                    .tiles = parts_.tiles,
                                                    .num_tiles = batch_.prefill.num_tiles,
                                                    .tile_rows = batch_.prefill.tile_rows,
                                                    .block_tables = parts_.slots.block_tables,
                                                    .block_table_stride = parts_.slots.max_blocks});
  }

  CudaModel::Parts& parts_;
  const CudaBatch& batch_;
  bool has_decode_plan_ = false;  // one for all layers
};

}  // namespace

CudaModel::CudaModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CudaModel::~CudaModel() = default;

const ForwardModelInfo& CudaModel::info() const { return parts_->info; }
const ModelSpec& CudaModel::spec() const { return parts_->spec; }
int CudaModel::device() const { return parts_->device_index; }
const kernels::CudaStream& CudaModel::stream() const { return parts_->stream; }
const kernels::SlotState& CudaModel::slots() const { return parts_->slots; }
float* CudaModel::logits() const { return parts_->logits; }
const kernels::PrefillPlanner& CudaModel::prefill_planner() const {
  return parts_->prefill_planner;
}
int64_t CudaModel::max_prefill_tiles() const { return parts_->max_prefill_tiles; }
void CudaModel::set_numerics_id(uint64_t id) { parts_->info.numerics_id = id; }
uint64_t CudaModel::num_fused_passes() const { return parts_->fused_layers.num_passes; }
std::span<uint64_t> CudaModel::fused_scratch() const {
  const FusedLayers& fused = parts_->fused_layers;
  return {fused.scratch, static_cast<size_t>(fused.num_scratch_words)};
}
std::span<std::byte> CudaModel::kv_bytes() const {
  return {parts_->kv_pool.data(), parts_->kv_pool.num_bytes()};
}

absl::Status CudaModel::Enqueue(const CudaBatch& batch) {
  if (batch.num_tokens == 0) return absl::OkStatus();
  LOCKSTEP_CHECK(batch.num_tokens <= parts_->info.max_step_tokens &&
                     batch.num_logits_rows <= parts_->info.max_logits_rows &&
                     batch.num_chunks <= parts_->slots.num_slots &&
                     batch.prefill.num_tiles <= parts_->max_prefill_tiles,
                 "a pass of {} tokens, {} chunks, {} tiles and {} rows of logits", batch.num_tokens,
                 batch.num_chunks, batch.prefill.num_tiles, batch.num_logits_rows);
  // Every block of every attention kernel reads chunks and tiles, so they go to device memory.
  if (batch.num_chunks > 0) {
    LOCKSTEP_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(
        parts_->chunks, batch.chunks, static_cast<size_t>(batch.num_chunks) * sizeof(*batch.chunks),
        cudaMemcpyDefault, parts_->stream.handle));
    LOCKSTEP_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(parts_->tiles, batch.tiles,
                        static_cast<size_t>(batch.prefill.num_tiles) * sizeof(*batch.tiles),
                        cudaMemcpyDefault, parts_->stream.handle));
  }
  const Workspace& workspace = parts_->workspace;
  LOCKSTEP_RETURN_IF_ERROR(
      kernels::PrepareStepInputs(parts_->stream, {.state = parts_->slots,
                                                  .decode_slots = batch.decode_slots,
                                                  .num_decode_rows = batch.num_decode_rows,
                                                  .chunks = parts_->chunks,
                                                  .chunk_token_ids = batch.chunk_token_ids,
                                                  .num_chunks = batch.num_chunks,
                                                  .num_tokens = batch.num_tokens,
                                                  .token_ids = parts_->token_ids,
                                                  .positions = workspace.positions,
                                                  .kv_slots = workspace.kv_slots,
                                                  .begin_ns = batch.begin_ns}));
  CudaOps ops(*parts_, batch);
  DecoderPass pass({.spec = &parts_->spec,
                    .share = &parts_->spec,
                    .weights = &parts_->weights,
                    .workspace = &workspace,
                    .rope_cos = parts_->rope_cos,
                    .rope_sin = parts_->rope_sin},
                   ops);
  return pass.Run({.num_tokens = batch.num_tokens, .num_logits_rows = batch.num_logits_rows},
                  parts_->token_ids, batch.logits_tokens, parts_->logits);
}

}  // namespace lockstep::worker
