#include "worker/model/layers/flow.h"

#include <utility>

#include "common/status.h"

namespace lockstep::worker {

using kernels::BFloat16;

Flow::Flow(const PassContext& context, DecoderOps& ops, int64_t num_tokens)
    : context_(context),
      ops_(ops),
      num_rows_(num_tokens),
      residual_(context.workspace->residual),
      attention_(context.workspace->attention) {}

Layer Flow::LayerAt(int64_t index) {
  const LayerKind& kind = plan().KindOf(index);
  return {.kind = kind,
          .share = context_.share->KindOf(index),
          .weights = weights().layers[static_cast<size_t>(index)],
          .rotation = context_.rotations[kind.attention.rotation],
          .kv_inputs = workspace().kv_inputs[kind.attention.kv_group],
          .kv = ops_.KvLayer(kind.attention.kv_group,
                             plan().layers[static_cast<size_t>(index)].index_in_group)};
}

absl::Status Flow::Select(const Layer& layer, const uint32_t* rows, int64_t num_rows) {
  const auto select = [&](const BFloat16* from, BFloat16* to, int64_t size) {
    return ops_.GatherRows({.table = from,
                            .indices = rows,
                            .output = to,
                            .num_table_rows = num_rows_,
                            .num_rows = num_rows,
                            .size = size});
  };
  LOCKSTEP_RETURN_IF_ERROR(select(residual_, workspace().last_residual, plan().hidden_size));
  LOCKSTEP_RETURN_IF_ERROR(
      select(attention_, workspace().last_attention, layer.kind.attention.q_size()));
  num_rows_ = num_rows;
  residual_ = workspace().last_residual;
  attention_ = workspace().last_attention;
  return absl::OkStatus();
}

Flow::Delta Flow::TakePending() { return std::exchange(delta_, Delta::kNone); }

BFloat16* Flow::Columns(BFloat16* whole) const {
  return context_.rank.degree == 1 ? whole : workspace().exchanged[exchange_];
}

AllGatherParams Flow::NextExchange(BFloat16* whole, int64_t num_columns) {
  const BFloat16* const columns = Columns(whole);
  exchange_ ^= 1;
  return {.columns = columns, .output = whole, .num_rows = num_rows_, .num_columns = num_columns};
}

absl::Status Flow::Gather(BFloat16* whole, int64_t num_columns) {
  if (context_.rank.degree == 1) return absl::OkStatus();
  return ops_.AllGather(NextExchange(whole, num_columns));
}

kernels::GemmParams Flow::Product(const BFloat16* input, const PartWeights& weights,
                                  BFloat16* output) const {
  return {.input = input,
          .input_stride = weights.matrix.k,
          .weights = weights.matrix,
          .bias = weights.bias,
          .output = output,
          .output_stride = weights.matrix.n,
          .num_rows = num_rows_};
}

}  // namespace lockstep::worker
