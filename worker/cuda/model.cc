#include "worker/cuda/model.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "common/check.h"
#include "common/status.h"
#include "kernels/attention/paged_attention.h"
#include "kernels/slots/host_copies.h"
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
  absl::Status AllGather(const AllGatherParams& params) override {
    const int64_t columns = parts_.rank.Share(params.num_columns);
    return parts_.exchange->AllGather(
        static_cast<int>(parts_.rank.rank), stream_,
        {.columns = params.columns,
         .output = params.output,
         .num_rows = params.num_rows,
         .row_bytes = columns * static_cast<int64_t>(sizeof(kernels::BFloat16))});
  }
  absl::Status GatherRmsNorm(const AllGatherParams& params,
                             const kernels::RmsNormParams& norm) override {
    if (parts_.fuses_exchange) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool done,
                                parts_.exchange->GatherRmsNorm(static_cast<int>(parts_.rank.rank),
                                                               stream_, params.columns, norm));
      if (done) return absl::OkStatus();
    }
    return StreamOps::GatherRmsNorm(params, norm);
  }
  // There is one group.
  kernels::PagedKv KvLayer(size_t, int64_t index) override { return parts_.kv_pool.Layer(index); }

 private:
  absl::Status AttendDecodeRows(const AttentionInputs& inputs) {
    if (batch_.num_decode_rows == 0) return absl::OkStatus();
    const AttentionPlan& attention = *inputs.attention;
    const kernels::PagedDecodeAttentionParams params = {
        .query = inputs.query,
        .query_stride = inputs.query_stride,
        .output = inputs.output,
        .output_stride = attention.q_size(),
        .kv = inputs.kv,
        .num_heads = attention.num_heads,
        .scale = attention.scale,
        .num_rows = batch_.num_decode_rows,
        .positions = parts_.workspace.positions,
        .block_tables = parts_.slots.block_tables,
        .block_table_stride = parts_.slots.max_blocks,
        .block_table_rows = batch_.decode_slots,
        .max_keys = batch_.max_decode_keys,
        .num_new_keys = batch_.draft_rows.exist() ? batch_.draft_rows.table.max_drafts + 1 : 1,
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
    const AttentionPlan& attention = *inputs.attention;
    return kernels::PagedPrefillAttention(stream_, {.query = inputs.query,
                                                    .query_stride = inputs.query_stride,
                                                    .output = inputs.output,
                                                    .output_stride = attention.q_size(),
                                                    .kv = inputs.kv,
                                                    .num_heads = attention.num_heads,
                                                    .scale = attention.scale,
                                                    .chunks = parts_.chunks,
                                                    .tiles = parts_.tiles,
                                                    .num_tiles = batch_.prefill.num_tiles,
                                                    .tile_rows = batch_.prefill.tile_rows,
                                                    .block_tables = parts_.slots.block_tables,
                                                    .block_table_stride = parts_.slots.max_blocks,
                                                    .scratch = parts_.prefill_scratch});
  }

  CudaModel::Parts& parts_;
  const CudaBatch& batch_;
  bool has_decode_plan_ = false;  // one for all layers
};

// Each rank has computed its columns of the logits.
absl::Status GatherLogits(CudaModel::Parts& parts, int64_t num_rows) {
  if (parts.rank.degree == 1 || num_rows == 0) return absl::OkStatus();
  const int64_t columns = parts.rank.Share(parts.plan.vocab_size);
  return parts.exchange->AllGather(static_cast<int>(parts.rank.rank), parts.stream,
                                   {.columns = parts.logits_columns,
                                    .output = parts.logits,
                                    .num_rows = num_rows,
                                    .row_bytes = columns * static_cast<int64_t>(sizeof(float))});
}

// The kernel of all layers takes decode rows alone, each of another sequence.
bool IsFused(const CudaModel::Parts& parts, const CudaBatch& batch) {
  return batch.num_chunks == 0 && !batch.draft_rows.exist() && batch.logits_tokens == nullptr &&
         batch.num_logits_rows == batch.num_tokens &&
         parts.fused_pass.Takes(batch.num_tokens, batch.max_decode_keys);
}

}  // namespace

CudaModel::CudaModel(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
CudaModel::~CudaModel() {
  // A rank stores to the memory of the others.
  for (int i = 0; i < num_ranks(); ++i) cudaStreamSynchronize(rank(i).stream().handle);
}

const ForwardModelInfo& CudaModel::info() const { return parts_->info; }
const ModelPlan& CudaModel::plan() const { return parts_->plan; }
int CudaModel::device() const { return parts_->device_index; }
const TensorRank& CudaModel::tensor_rank() const { return parts_->rank; }
const kernels::CudaStream& CudaModel::stream() const { return parts_->stream; }
const kernels::SlotState& CudaModel::slots() const { return parts_->slots; }
float* CudaModel::logits() const { return parts_->logits; }
const kernels::PrefillPlanner& CudaModel::prefill_planner() const {
  return parts_->prefill_planner;
}
int64_t CudaModel::max_prefill_tiles() const { return parts_->max_prefill_tiles; }
void CudaModel::set_numerics_id(uint64_t id) { parts_->info.numerics_id = id; }
uint64_t CudaModel::num_fused_passes() const { return parts_->fused_pass.num_passes(); }
std::span<uint64_t> CudaModel::fused_scratch() const { return parts_->fused_pass.scratch(); }
std::span<std::byte> CudaModel::kv_bytes() const {
  return {parts_->kv_pool.data(), parts_->kv_pool.num_bytes()};
}

int CudaModel::num_ranks() const {
  return parts_->group == nullptr ? 1 : parts_->group->team->num_ranks();
}
CudaModel& CudaModel::rank(int index) {
  return index == 0 ? *this : *parts_->group->others[static_cast<size_t>(index - 1)];
}
void CudaModel::OnRanks(absl::FunctionRef<void(int)> body, std::chrono::nanoseconds hung_after) {
  if (parts_->group == nullptr) return body(0);
  parts_->group->team->Run(body, hung_after);
}
std::string CudaModel::HangReport() const {
  if (parts_->group == nullptr) return "";
  const std::string report = parts_->group->exchange->HangReport();
  return report.empty() ? "" : ": " + report;
}

void CudaModel::ExpectOk(const absl::Status& status) const {
  LOCKSTEP_CHECK(status.ok(), "{}{}", Message(status), HangReport());
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
    kernels::HostCopies copies;
    copies.Add(parts_->chunks, batch.chunks,
               static_cast<size_t>(batch.num_chunks) * sizeof(*batch.chunks));
    copies.Add(parts_->tiles, batch.tiles,
               static_cast<size_t>(batch.prefill.num_tiles) * sizeof(*batch.tiles));
    LOCKSTEP_RETURN_IF_ERROR(copies.Enqueue(parts_->stream));
  }
  const Workspace& workspace = parts_->workspace;
  const bool is_fused = IsFused(*parts_, batch);
  LOCKSTEP_RETURN_IF_ERROR(
      kernels::PrepareStepInputs(parts_->stream, {.state = parts_->slots,
                                                  .decode_slots = batch.decode_slots,
                                                  .draft_rows = batch.draft_rows,
                                                  .num_decode_rows = batch.num_decode_rows,
                                                  .chunks = parts_->chunks,
                                                  .chunk_token_ids = batch.chunk_token_ids,
                                                  .num_chunks = batch.num_chunks,
                                                  .num_tokens = batch.num_tokens,
                                                  .token_ids = parts_->token_ids,
                                                  .positions = workspace.positions,
                                                  .kv_slots = workspace.kv_inputs.front().kv_slots,
                                                  .begin_ns = batch.begin_ns,
                                                  .next_may_start = is_fused}));
  const Rotation rotation = {.cos = parts_->rope_cos, .sin = parts_->rope_sin};
  const PassContext context = {.plan = &parts_->plan,
                               .share = &parts_->share,
                               .rank = parts_->rank,
                               .weights = &parts_->weights,
                               .workspace = &workspace,
                               .rotations = {&rotation, 1}};
  const LogitsColumns logits = {.data = parts_->logits_columns,
                                .stride = parts_->rank.Share(parts_->plan.vocab_size)};
  CudaOps ops(*parts_, batch);
  LOCKSTEP_RETURN_IF_ERROR(
      is_fused ? parts_->fused_pass.Run(context, ops,
                                        {.num_rows = batch.num_tokens,
                                         .token_ids = parts_->token_ids,
                                         .block_tables = parts_->slots.block_tables,
                                         .block_table_stride = parts_->slots.max_blocks,
                                         .slots = batch.decode_slots},
                                        logits)
               : RunDecoderPass(context, ops,
                                {.num_tokens = batch.num_tokens,
                                 .token_ids = parts_->token_ids,
                                 .logits_tokens = batch.logits_tokens,
                                 .num_logits_rows = batch.num_logits_rows},
                                logits));
  return GatherLogits(*parts_, batch.num_logits_rows);
}

}  // namespace lockstep::worker
