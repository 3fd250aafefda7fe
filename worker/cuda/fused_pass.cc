#include "worker/cuda/fused_pass.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "common/status.h"
#include "kernels/device/cuda_status.h"

namespace lockstep::worker {
namespace {

// The kernel knows these two kinds of layers. With learned positions the rotation changes nothing.
std::optional<kernels::DecoderStyle> StyleOf(const ModelPlan& plan) {
  const LayerKind& kind = plan.kinds.front();
  if (plan.norm == NormKind::kRms && kind.mlp.kind == MlpKind::kSwiGlu &&
      plan.positions == PositionKind::kRotary) {
    return kernels::DecoderStyle::kLlama;
  }
  if (plan.norm == NormKind::kLayer && kind.mlp.kind == MlpKind::kGeluTanh &&
      kind.parts[LayerPart::kQkv].has_bias && kind.parts[LayerPart::kAttentionOutput].has_bias &&
      kind.parts[LayerPart::kMlpInput].has_bias) {
    return kernels::DecoderStyle::kGpt2;
  }
  return std::nullopt;
}

kernels::DecodeLayer LayerOf(const LayerWeights& weights, kernels::BFloat16* kv) {
  const auto product = [&weights](LayerPart part) -> kernels::DecodeProduct {
    return {.weights = weights[part].matrix.data, .bias = weights[part].bias};
  };
  return {.attention_norm = weights[LayerPart::kAttentionNorm].vector,
          .attention_norm_bias = weights[LayerPart::kAttentionNorm].bias,
          .q_norm = weights[LayerPart::kQNorm].vector,
          .k_norm = weights[LayerPart::kKNorm].vector,
          .mlp_norm = weights[LayerPart::kMlpNorm].vector,
          .mlp_norm_bias = weights[LayerPart::kMlpNorm].bias,
          .kv = kv,
          .products = {product(LayerPart::kQkv), product(LayerPart::kAttentionOutput),
                       product(LayerPart::kMlpInput), product(LayerPart::kMlpOutput)}};
}

}  // namespace

absl::Status FusedPass::Choose(const ModelOptions& options, const ModelPlan& plan,
                               const TensorRank& rank, const kernels::CudaStream& stream) {
  // The kernel computes whole layers, exchanges nothing, and reads keys and values in bf16.
  const std::optional<kernels::DecoderStyle> style = StyleOf(plan);
  const bool has_codes = plan.kv_groups.front().type != kernels::KvType::kBFloat16;
  if (rank.degree > 1 || !style || has_codes) return absl::OkStatus();
  const LayerKind& kind = plan.kinds.front();
  shape_ = {.style = *style,
            .num_layers = plan.num_layers(),
            .hidden_size = plan.hidden_size,
            .intermediate_size = kind.mlp.intermediate_size,
            .num_heads = kind.attention.num_heads,
            .num_kv_heads = kind.attention.num_kv_heads,
            .head_dim = kind.attention.head_dim};
  const int64_t wanted_rows =
      options.max_fused_rows.value_or(kernels::DecodeLayersFasterRows(shape_));
  const int64_t max_rows = std::min<int64_t>(
      {wanted_rows, kernels::DecodeLayersMaxRows(shape_), options.max_logits_rows});
  if (max_rows == 0) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const bool fits, kernels::DecodeLayersFit(stream, shape_));
  if (!fits) return absl::OkStatus();
  max_rows_ = max_rows;
  max_keys_ = options.max_fused_rows.has_value() ? std::numeric_limits<int64_t>::max()
                                                 : kernels::DecodeLayersFasterKeys(shape_);
  return absl::OkStatus();
}

void FusedPass::TakeMemory(int64_t max_context_tokens, Arena& arena) {
  if (!is_used()) return;
  layers_ = arena.Take<kernels::DecodeLayer>(shape_.num_layers);
  num_scratch_words_ = kernels::DecodeLayersScratchWords(shape_, max_context_tokens);
  scratch_ = arena.Take<uint64_t>(num_scratch_words_);
}

absl::Status FusedPass::Upload(const ModelWeights& weights, const CudaKvPool& kv_pool,
                               const kernels::CudaStream& stream) {
  if (!is_used()) return absl::OkStatus();
  std::vector<kernels::DecodeLayer> layers;
  for (const LayerWeights& of_layer : weights.layers) {
    const auto index = static_cast<int64_t>(layers.size());
    layers.push_back(LayerOf(of_layer, static_cast<kernels::BFloat16*>(kv_pool.Layer(index).data)));
    LOCKSTEP_RETURN_IF_ERROR(kernels::MapWeights(stream, shape_, layers.back()));
  }
  return kernels::CudaStatus(
      cudaMemcpy(layers_, layers.data(), layers.size() * sizeof(layers[0]), cudaMemcpyHostToDevice),
      "pointers of the layers");
}

absl::Status FusedPass::Run(const PassContext& context, StreamOps<kernels::CudaStream>& ops,
                            const FusedBatch& batch, const LogitsColumns& logits) {
  ++num_passes_;
  const ModelPlan& plan = *context.plan;
  const Workspace& workspace = *context.workspace;
  const auto& weights = context.weights->model;
  LOCKSTEP_RETURN_IF_ERROR(kernels::DecodeLayers(
      ops.stream(), {.shape = shape_,
                     .layers = layers_,
                     .norm_eps = plan.norm_eps,
                     .attention_scale = plan.kinds.front().attention.scale,
                     .cos = context.rotations.front().cos,
                     .sin = context.rotations.front().sin,
                     .num_rows = batch.num_rows,
                     .positions = workspace.positions,
                     .kv_slots = workspace.kv_inputs.front().kv_slots,
                     .block_tables = batch.block_tables,
                     .block_table_stride = batch.block_table_stride,
                     .block_table_rows = batch.slots,
                     .token_ids = batch.token_ids,
                     .token_embeddings = weights[ModelPart::kTokenEmbedding].rows,
                     .position_embeddings = weights[ModelPart::kPositionEmbedding].rows,
                     .vocab_size = plan.vocab_size,
                     .max_positions = plan.max_context_tokens,
                     .final_norm = weights[ModelPart::kFinalNorm].vector,
                     .final_norm_bias = weights[ModelPart::kFinalNorm].bias,
                     .output = workspace.normed,
                     .scratch = scratch_,
                     .num_scratch_words = num_scratch_words_}));
  return MultiplyLogits(context, ops, batch.num_rows, logits);
}

}  // namespace lockstep::worker
