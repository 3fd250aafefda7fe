#include "worker/model/layers/workspace.h"

#include <algorithm>

#include "common/status.h"

namespace lockstep::worker {
namespace {

using kernels::BFloat16;

void LayOut(const ModelSpec& spec, const TensorRank& rank, int64_t tokens, int64_t logits_rows,
            Workspace& workspace) {
  const ModelSpec share = ShareOf(spec, rank);
  Arena& storage = workspace.storage;
  workspace.residual = storage.Take<BFloat16>(tokens * spec.hidden_size);
  workspace.normed = storage.Take<BFloat16>(tokens * spec.hidden_size);
  workspace.qkv = storage.Take<BFloat16>(tokens * share.qkv_size());
  workspace.attention = storage.Take<BFloat16>(tokens * spec.q_size());
  workspace.delta = storage.Take<BFloat16>(tokens * spec.hidden_size);
  workspace.gate_up = storage.Take<BFloat16>(tokens * share.mlp_input_size());
  workspace.activated = storage.Take<BFloat16>(tokens * spec.intermediate_size);
  if (rank.degree > 1) {
    const int64_t most_columns =
        std::max({share.q_size(), rank.Share(spec.hidden_size), share.intermediate_size});
    for (BFloat16*& columns : workspace.exchanged) {
      columns = storage.Take<BFloat16>(tokens * most_columns);
    }
  }
  workspace.last_residual = storage.Take<BFloat16>(logits_rows * spec.hidden_size);
  workspace.last_attention = storage.Take<BFloat16>(logits_rows * spec.q_size());
  workspace.positions = storage.Take<uint32_t>(tokens);
  workspace.kv_slots = storage.Take<uint64_t>(tokens);
  workspace.sequences = storage.Take<kernels::AttentionSequence>(tokens);
}

}  // namespace

absl::StatusOr<Workspace> Workspace::Create(const ModelSpec& spec, const TensorRank& rank,
                                            int64_t max_step_tokens, int64_t max_logits_rows,
                                            const std::function<absl::Status(Arena&)>& commit) {
  Workspace workspace;
  LayOut(spec, rank, max_step_tokens, max_logits_rows, workspace);
  LOCKSTEP_RETURN_IF_ERROR(Annotate(commit(workspace.storage), "workspace of a step"));
  LayOut(spec, rank, max_step_tokens, max_logits_rows, workspace);
  return workspace;
}

}  // namespace lockstep::worker
